// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/absent_state.h"
#include "client/commands/commands.h"
#include "client/files/array_file.h"
#include "client/files/box_copy.h"
#include "client/input.h"
#include "client/local_shards.h"
#include "remesh/v1/local.grpc.pb.h"
#include "remesh/v1/state.grpc.pb.h"

namespace remesh::client {
namespace {

struct GetOptions {
  Endpoint worker, server;
  OutputFormat format = OutputFormat::kTable;
  std::string state, folder;
  std::vector<std::string> arrays;
  int64_t generation = 0;
  bool wait = false;
};

// The state as the server knows it: its latest generation and its arrays.
absl::StatusOr<v1::State> GetState(const GetOptions& options) {
  const auto stub = v1::StateService::NewStub(ConnectServer(options.server));
  v1::GetStateRequest request;
  request.set_name(options.state);
  absl::StatusOr<v1::State> state =
      Call(options.server, *stub, &v1::StateService::Stub::GetState, request);
  if (!absl::IsNotFound(state.status())) return state;
  // As the worker would say it.
  return MakeError(absl::StatusCode::kNotFound, std::string(state.status().message()),
                   {.reason = "STATE_NOT_FOUND", .metadata = {{"state", options.state}}});
}

// Whether --array names the array, or is not given.
bool IsWanted(const std::string& array, const GetOptions& options) {
  const auto& named = options.arrays;
  return named.empty() || std::find(named.begin(), named.end(), array) != named.end();
}

// Creates the files of the arrays that have no element: no host has a shard of them.
absl::Status SaveEmptyArrays(const v1::State& state, const GetOptions& options) {
  for (const v1::StateArray& array : state.spec().arrays()) {
    const planner::Shape shape(array.shape().begin(), array.shape().end());
    if (!IsWanted(array.name(), options) || planner::ElementCount(shape) > 0) continue;
    ASSIGN_OR_RETURN(const planner::ElementType type,
                     planner::ParseElementType(array.element_type()));
    RETURN_IF_ERROR(ArrayFile::OpenOrCreate(options.folder, array.name(), type, shape).status());
  }
  return absl::OkStatus();
}

// `shards` are ordered by array, so that each file is opened once.
absl::Status Save(const std::vector<LocalShard>& shards, const std::string& folder) {
  std::optional<ArrayFile> file;
  std::string open_array;
  for (const LocalShard& shard : shards) {
    if (!file.has_value() || open_array != shard.array) {
      ASSIGN_OR_RETURN(file, ArrayFile::OpenOrCreate(folder, shard.array, shard.type, shard.shape));
      open_array = shard.array;
    }
    WriteBox(shard.type, shard.shape, shard.box, shard.bytes, file->data());
  }
  return absl::OkStatus();
}

absl::Status Get(const GetOptions& options) {
  RETURN_IF_ERROR(CheckFolder(options.folder));
  v1::GetShardsRequest request;
  request.set_state(options.state);
  request.set_wait(options.wait);
  for (const std::string& array : options.arrays) request.add_shards()->set_array(array);
  const absl::StatusOr<v1::State> state = GetState(options);
  // With --generation the worker alone suffices.
  if (options.generation == 0) RETURN_IF_ERROR(state.status());
  request.set_generation(options.generation > 0 ? options.generation : state->generation());
  const auto stub = v1::LocalService::NewStub(ConnectSocket(options.worker));
  const absl::StatusOr<v1::ShardsResponse> found =
      Call(options.worker, *stub, &v1::LocalService::Stub::GetShards, request);
  if (!found.ok()) {
    RETURN_IF_ERROR(CheckNothingHere(found.status(), options.worker, *stub, options.server,
                                     options.state, options.arrays));
  }
  const v1::ShardsResponse response = found.ok() ? *found : v1::ShardsResponse();
  ASSIGN_OR_RETURN(const LocalShards shards, LocalShards::Map(response, /*writable=*/false));
  RETURN_IF_ERROR(Save(shards.shards(), options.folder));
  if (state.ok()) RETURN_IF_ERROR(SaveEmptyArrays(*state, options));
  if (shards.shards().empty()) {
    PrintNothingHere(options.format, response, options.state);
    return absl::OkStatus();
  }
  Print(options.format, response, [&] {
    Table table({"SHARDS", "BYTES", "GENERATION"});
    table.AddRow({absl::StrCat(shards.shards().size()), FormatBytes(shards.total_bytes()),
                  absl::StrCat(response.generation())});
    return table;
  });
  return absl::OkStatus();
}

}  // namespace

void AddGet(CLI::App& app, Command& command) {
  CLI::App* get =
      app.add_subcommand("get", "Save this host's shards of a state into files of whole arrays");
  get->footer(
      "Files as of put. What other hosts hold stays as it is in files that are there, zero in new "
      "ones:\n"
      "run it on every host, one after another, with a shared folder to get whole arrays.");
  auto options = std::make_shared<GetOptions>();
  AddSocketFlags(*get, options->worker);
  AddOutputFlag(*get, options->format);
  AddName(*get, kStateNames, options->state, "STATE");
  get->add_option("FOLDER", options->folder, "Existing folder for the files")->required();
  get->add_option("--array", options->arrays, "Only this array; may be repeated")
      ->allow_extra_args(false);
  get->add_option("--generation", options->generation,
                  "Generation to read; the server's latest without it")
      ->transform(WholeNumber());
  AddServerFlag(*get, options->server,
                "Address of remesh-server, HOST:PORT, to ask for the latest generation")
      ->capture_default_str();
  get->add_flag("--wait", options->wait, "Wait for the generation to be committed here");
  get->callback([&command, options] { command = [options] { return Get(*options); }; });
}

}  // namespace remesh::client
