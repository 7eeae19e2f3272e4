// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/nearest.h"
#include "client/commands/commands.h"
#include "client/interrupt_note.h"
#include "client/watch/execution_wait.h"
#include "client/watch/outage.h"
#include "client/world_members.h"
#include "remesh/v1/coordination.grpc.pb.h"

namespace remesh::client {
namespace {

using WorldStub = v1::CoordinationService::Stub;

constexpr int kSizeMax = 16'384;  // of a world
constexpr absl::Duration kLookAgain = absl::Milliseconds(100);
constexpr absl::Duration kReportAfter = absl::Seconds(2);  // whom it waits for, once

struct ResizeOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string job;
  std::string world = "main";
  int size = 0;
  double wait_seconds = 30;

  std::string scope() const { return absl::StrCat(WithPrefix("jobs/", job), "/worlds/", world); }
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

// The world as it is now; none: it is forgotten.
absl::StatusOr<std::optional<v1::World>> FindWorld(const ResizeOptions& options, WorldStub& stub) {
  v1::ListWorldsRequest request;
  request.set_parent(WithPrefix("jobs/", options.job));
  request.set_page_size(1000);
  ASSIGN_OR_RETURN(const v1::ListWorldsResponse worlds,
                   CallAllPages(options.server, stub, &WorldStub::ListWorlds, request));
  for (const v1::World& world : worlds.worlds()) {
    if (world.name() == options.scope()) return world;
  }
  return std::nullopt;
}

absl::Status AnswerUnknown(const std::string& scope, const std::string& why) {
  return MakeError(absl::StatusCode::kDeadlineExceeded, absl::StrCat(scope, why),
                   {.reason = kOutcomeUnknown, .metadata = {{"scope", scope}}});
}

absl::Status EndedUnanswered(const std::string& scope, const v1::World& world) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(scope, " ended before its processes agreed on a step: ", world.over()),
      {.reason = "WORLD_OVER", .metadata = {{"scope", scope}}});
}

// What came of the request, once all processes have answered.
absl::Status ResizeOutcome(const ResizeOptions& options, const v1::World& world) {
  if (!world.has_preempt()) {
    return AnswerUnknown(options.scope(), ": the server restarted and lost the request: ask again");
  }
  if (IsTable(options.format)) std::cerr << "all have agreed on a step, and leave\n";
  return absl::OkStatus();
}

// The wait for the answers of one world.
class ResizeWait {
 public:
  explicit ResizeWait(const ResizeOptions& options) : options_(options) {}

  // The outcome, once it is known or the time is up. `world`: as it is now; none: it is forgotten.
  std::optional<absl::Status> Look(const std::optional<v1::World>& world) {
    if (!world) return AnswerUnknown(options_.scope(), " is not known any more");
    if (epoch_ == 0) epoch_ = world->epoch();
    if (world->epoch() != epoch_) return ReportNext(*world);
    const v1::World::Waiting* const agreement = FindAgreement(*world);
    const bool returning = world->phase() == v1::World::RETURNING;
    const bool lives = returning || world->phase() == v1::World::FORMED;
    if (agreement != nullptr && !lives) return EndedUnanswered(options_.scope(), *world);
    if (agreement == nullptr && !returning) return ResizeOutcome(options_, *world);
    const std::string awaited = agreement == nullptr ? "the members, which the server waits for"
                                                     : MemberNames(agreement->absent(), *world);
    const absl::Duration waited = absl::Now() - begin_;
    if (waited >= absl::Seconds(options_.wait_seconds)) return Unanswered(awaited);
    if (waited >= kReportAfter && !std::exchange(reported_, true)) {
      std::cerr << "waits for " << awaited << " to call leaving(step)\n";
    }
    return std::nullopt;
  }

 private:
  // Of a world that ended between two looks.
  absl::Status ReportNext(const v1::World& next) const {
    if (IsTable(options_.format)) {
      std::cerr << "its next world has " << next.max_size() << " processes\n";
    }
    return absl::OkStatus();
  }

  absl::Status Unanswered(const std::string& awaited) const {
    return AnswerUnknown(
        options_.scope(),
        absl::StrCat(
            " has the request, but did not answer within ", options_.wait_seconds,
            " s (--timeout); it waits for ", awaited,
            "\n  a process answers from its first call of leaving(step) on; one that never "
            "calls it goes on as before\n  all leave once all have answered: see remeshctl "
            "worlds describe ",
            options_.scope()));
  }

  const ResizeOptions& options_;
  const absl::Time begin_ = absl::Now();
  int64_t epoch_ = 0;
  bool reported_ = false;
};

// Until all processes have answered, or the time is up. A server that restarts is waited for: the
// processes tell it again what was asked.
absl::Status AwaitAnswers(const ResizeOptions& options, WorldStub& stub, grpc::Channel& channel) {
  const InterruptNote note("remeshctl: no longer waiting; the request stands\n");
  ResizeWait wait(options);
  Outage outage(options.server);
  while (true) {
    const auto world = FindWorld(options, stub);
    if (world.ok()) {
      outage.End();
      if (const auto outcome = wait.Look(*world)) return *outcome;
    } else if (!outage.Bears(grpc::Status(grpc::StatusCode(world.status().code()), ""))) {
      return world.status();
    } else {
      AwaitConnection(channel);
    }
    absl::SleepFor(kLookAgain);
  }
}

absl::Status ResizeJob(const ResizeOptions& options) {
  v1::ReportPreemptionRequest request;
  request.set_scope(options.scope());
  request.set_by("remeshctl jobs resize");
  request.set_next_size(options.size);
  request.set_resize(true);
  const std::shared_ptr<grpc::Channel> channel = ConnectServer(options.server);
  const auto stub = v1::CoordinationService::NewStub(channel);
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
  return AwaitAnswers(options, *stub, *channel);
}

}  // namespace

void AddResizeJob(CLI::App& app, Command& command) {
  const auto [resize, options] = AddWaitVerb(
      *app.get_subcommand("jobs"), command, "resize",
      "Ask the processes of a job to save, end and start again in another number", ResizeJob);
  AddName(*resize, kJobNames, options->job, "JOB");
  resize->add_option("-n,--size", options->size, "Processes of the next world")
      ->required()
      ->check(CLI::Range(1, kSizeMax));
  resize->add_option("--world", options->world, "Which world of the job")->capture_default_str();
  resize->get_option("--timeout")
      ->description(
          "Longest wait until all have answered, seconds; then the exit code is 3, and the request "
          "stands")
      ->capture_default_str();
  resize->footer(
      "Waits until all processes have answered: each does from its first call of leaving(step)\n"
      "on, and a job that never calls it ignores the request. They agree on a step, save it and\n"
      "exit with 75. What started them starts the next world: remesh launch with this size, from\n"
      "its --min to its --max. Before they have agreed, another resize takes the place of this "
      "one.");
}

}  // namespace remesh::client
