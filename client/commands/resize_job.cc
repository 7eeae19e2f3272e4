// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "remesh/v1/coordination.grpc.pb.h"

namespace remesh::client {
namespace {

using WorldStub = v1::CoordinationService::Stub;

constexpr int kSizeMax = 16'384;  // of a world

struct ResizeOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string job;
  std::string world = "main";
  int size = 0;
};

// The refusal, with the name of a world that may be meant.
absl::Status NoSuchWorld(const ResizeOptions& options, WorldStub& stub, const std::string& name) {
  v1::ListWorldsRequest request;
  request.set_page_size(1000);
  std::vector<std::string> names;
  const auto worlds = CallAllPages(options.server, stub, &WorldStub::ListWorlds, request);
  if (worlds.ok()) {
    for (const v1::World& world : worlds->worlds()) names.push_back(world.name());
  }
  return MakeError(absl::StatusCode::kNotFound,
                   absl::StrCat(name, " has had no world", DidYouMean(name, names)),
                   {.reason = "WORLD_NOT_FOUND", .metadata = {{"scope", name}}});
}

absl::Status ResizeJob(const ResizeOptions& options) {
  v1::ReportPreemptionRequest request;
  request.set_scope(absl::StrCat(WithPrefix("jobs/", options.job), "/worlds/", options.world));
  request.set_by("remeshctl jobs resize");
  request.set_next_size(options.size);
  request.set_resize(true);
  const auto stub = v1::CoordinationService::NewStub(ConnectServer(options.server));
  const absl::Status status =
      Call(options.server, *stub, &WorldStub::ReportPreemption, request).status();
  if (absl::IsNotFound(status)) return NoSuchWorld(options, *stub, request.scope());
  RETURN_IF_ERROR(status);
  if (options.format == OutputFormat::kName) {
    std::cout << request.scope() << "\n";
  } else if (IsTable(options.format)) {
    std::cerr << "asked " << request.scope() << " to save, end and start again as " << options.size
              << " processes\n";
  } else {
    Print(options.format, request, [] { return Table({}, {}); });
  }
  return absl::OkStatus();
}

}  // namespace

void AddResizeJob(CLI::App& app, Command& command) {
  const auto [resize, options] = AddVerb(
      *app.get_subcommand("jobs"), command, "resize",
      "Ask the processes of a job to save, end and start again in another number", ResizeJob);
  AddName(*resize, kJobNames, options->job, "JOB");
  resize->add_option("-n,--size", options->size, "Processes of the next world")
      ->required()
      ->check(CLI::Range(1, kSizeMax));
  resize->add_option("--world", options->world, "Which world of the job")->capture_default_str();
  resize->footer(
      "The processes agree on a step, save it and exit with 75. What started them starts the next "
      "world:\n"
      "remesh launch with this size, from its --min to its --max. Before they have agreed, another "
      "resize\n"
      "takes the place of this one.");
}

}  // namespace remesh::client
