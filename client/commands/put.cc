// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/absent_state.h"
#include "client/commands/commands.h"
#include "client/commands/write_flags.h"
#include "client/files/array_file.h"
#include "client/files/box_copy.h"
#include "client/input.h"
#include "client/local_shards.h"
#include "client/sealed_shards.h"
#include "remesh/v1/local.grpc.pb.h"

namespace remesh::client {
namespace {

using LocalStub = v1::LocalService::Stub;

// Files by array.
using Files = std::map<std::string, ArrayFile>;

struct PutOptions {
  Endpoint worker, server;
  OutputFormat format = OutputFormat::kTable;
  std::string state, folder;
  std::vector<std::string> arrays;
  std::string write;
  bool no_seal = false;
  bool unseal = false;
};

// Opens and checks the files of these shards that `files` does not have yet.
absl::Status OpenAll(const std::vector<LocalShard>& shards, const std::string& folder,
                     Files& files) {
  for (const LocalShard& shard : shards) {
    if (files.contains(shard.array)) continue;
    ASSIGN_OR_RETURN(ArrayFile file, ArrayFile::Open(folder, shard.array, shard.type, shard.shape));
    files.emplace(shard.array, std::move(file));
  }
  return absl::OkStatus();
}

void Fill(const std::vector<LocalShard>& shards, const Files& files) {
  for (const LocalShard& shard : shards) {
    const ArrayFile& file = files.at(shard.array);
    ReadBox(shard.type, shard.shape, shard.box, file.data(), shard.bytes);
  }
}

// A request of a call for the shards that are put.
template <typename Request>
Request For(const PutOptions& options) {
  Request request;
  request.set_state(options.state);
  for (const std::string& array : options.arrays) request.add_shards()->set_array(array);
  return request;
}

// Takes the shards back. The files are checked first, because a state whose shards are unsealed is
// BUILDING. Shards that are not all sealed are described only once they are: their state is
// BUILDING already.
absl::StatusOr<v1::SealResponse> Unseal(const PutOptions& options, LocalStub& stub, Files& files) {
  ASSIGN_OR_RETURN(const std::optional<LocalShards> sealed,
                   FindSealedShards(options.worker, stub, For<v1::GetShardsRequest>(options)));
  if (sealed.has_value()) RETURN_IF_ERROR(OpenAll(sealed->shards(), options.folder, files));
  v1::UnsealRequest request = For<v1::UnsealRequest>(options);
  request.set_write(options.write);
  return Call(options.worker, stub, &LocalStub::Unseal, request);
}

absl::StatusOr<v1::SealResponse> Seal(const PutOptions& options, LocalStub& stub) {
  v1::SealRequest request = For<v1::SealRequest>(options);
  request.set_write(options.write);
  return Call(options.worker, stub, &LocalStub::Seal, request);
}

// The answer of a put that does not seal: how many of the shards are sealed already.
v1::SealResponse NotSealed(const v1::ShardsResponse& allocated) {
  v1::SealResponse response;
  response.set_generation(allocated.generation());
  response.set_total_shards(allocated.shards_size());
  for (const v1::Shard& shard : allocated.shards())
    response.set_sealed_shards(response.sealed_shards() + (shard.sealed() ? 1 : 0));
  return response;
}

absl::Status Put(const PutOptions& options) {
  RETURN_IF_ERROR(CheckFolder(options.folder));
  const auto stub = v1::LocalService::NewStub(ConnectSocket(options.worker));
  Files files;
  v1::SealResponse sealed;
  if (options.unseal) {
    ASSIGN_OR_RETURN(sealed, Unseal(options, *stub, files));
  }
  const absl::StatusOr<v1::ShardsResponse> allocated =
      Call(options.worker, *stub, &LocalStub::Allocate, For<v1::AllocateRequest>(options));
  if (!allocated.ok()) {
    RETURN_IF_ERROR(CheckNothingHere(allocated.status(), options.worker, *stub, options.server,
                                     options.state, options.arrays));
    PrintNothingHere(options.format, v1::SealResponse(), options.state);
    return absl::OkStatus();
  }
  const v1::ShardsResponse& response = *allocated;
  ASSIGN_OR_RETURN(const LocalShards shards, LocalShards::Map(response, /*writable=*/true));
  RETURN_IF_ERROR(OpenAll(shards.shards(), options.folder, files));
  Fill(shards.shards(), files);
  if (!options.no_seal) {
    ASSIGN_OR_RETURN(sealed, Seal(options, *stub));
  } else if (!options.unseal) {
    sealed = NotSealed(response);
  }
  if (shards.shards().empty()) {
    PrintNothingHere(options.format, sealed, options.state);
    return absl::OkStatus();
  }
  Print(options.format, sealed, [&] {
    Table table({"SHARDS", "BYTES", "SEALED HERE", "GENERATION"});
    table.AddRow({absl::StrCat(shards.shards().size()), FormatBytes(shards.total_bytes()),
                  absl::StrCat(sealed.sealed_shards(), "/", sealed.total_shards()),
                  absl::StrCat(response.generation())});
    return table;
  });
  return absl::OkStatus();
}

}  // namespace

void AddPut(CLI::App& app, Command& command) {
  CLI::App* put =
      app.add_subcommand("put", "Write this host's shards of a state from files of whole arrays");
  put->footer(absl::StrCat(
      "ARRAY.npy where NumPy has the type; else (bf16, fp8, int4 ...) ARRAY.bin, dense rows first "
      "and\n"
      "packed below a byte, beside ARRAY.json: {\"element_type\": \"bf16\", \"shape\": [2048, "
      "8192]}.\n"
      "Bytes of a name outside [A-Za-z0-9._-] are %XX in the file's, and a leading \".\" is %2E.\n"
      "All files are opened and checked before anything is unsealed or written.\n\n",
      kHelpOfWrites));
  auto options = std::make_shared<PutOptions>();
  AddSocketFlags(*put, options->worker);
  AddOutputFlag(*put, options->format);
  AddServerFlag(
      *put, options->server,
      "Address of remesh-server, HOST:PORT, to ask whether a state that this host's worker "
      "does not know is elsewhere")
      ->capture_default_str();
  AddName(*put, kStateNames, options->state, "STATE");
  put->add_option("FOLDER", options->folder, "Folder of the files")->required();
  put->add_option("--array", options->arrays, "Only this array; may be repeated")
      ->allow_extra_args(false);
  put->add_flag("--no-seal", options->no_seal, "Write the shards without sealing them");
  put->add_flag("--unseal", options->unseal,
                "Take sealed shards back first, to write them again. The state must not move. If "
                "the command is broken off, the shards stay unsealed: put them again");
  AddWriteFlag(*put, options->write);
  put->callback([&command, options] { command = [options] { return Put(*options); }; });
}

}  // namespace remesh::client
