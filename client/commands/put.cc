// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/files/array_file.h"
#include "client/files/box_copy.h"
#include "client/input.h"
#include "client/local_shards.h"
#include "remesh/v1/local.grpc.pb.h"

namespace remesh::client {
namespace {

using LocalStub = v1::LocalService::Stub;

struct PutOptions {
  Endpoint worker;
  OutputFormat format = OutputFormat::kTable;
  std::string state, folder;
  std::vector<std::string> arrays;
  bool no_seal = false;
  bool unseal = false;
};

// `shards` are ordered by array, so that each file is opened once.
absl::Status Fill(const std::vector<LocalShard>& shards, const std::string& folder) {
  std::optional<ArrayFile> file;
  std::string open_array;
  for (const LocalShard& shard : shards) {
    if (!file.has_value() || open_array != shard.array) {
      ASSIGN_OR_RETURN(file, ArrayFile::Open(folder, shard.array, shard.type, shard.shape));
      open_array = shard.array;
    }
    ReadBox(shard.type, shard.shape, shard.box, file->data(), shard.bytes);
  }
  return absl::OkStatus();
}

// A request of a call for the shards that are put.
template <typename Request>
Request For(const PutOptions& options) {
  Request request;
  request.set_state(options.state);
  for (const std::string& array : options.arrays) request.add_shards()->set_array(array);
  return request;
}

absl::Status Put(const PutOptions& options) {
  RETURN_IF_ERROR(CheckFolder(options.folder));
  const auto stub = v1::LocalService::NewStub(ConnectSocket(options.worker));
  v1::SealResponse sealed;
  if (options.unseal) {
    ASSIGN_OR_RETURN(
        sealed, Call(options.worker, *stub, &LocalStub::Unseal, For<v1::UnsealRequest>(options)));
  }
  ASSIGN_OR_RETURN(
      const v1::ShardsResponse response,
      Call(options.worker, *stub, &LocalStub::Allocate, For<v1::AllocateRequest>(options)));
  ASSIGN_OR_RETURN(const LocalShards shards, LocalShards::Map(response, /*writable=*/true));
  RETURN_IF_ERROR(Fill(shards.shards(), options.folder));
  if (!options.no_seal) {
    ASSIGN_OR_RETURN(sealed,
                     Call(options.worker, *stub, &LocalStub::Seal, For<v1::SealRequest>(options)));
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
  put->footer(
      "ARRAY.npy where NumPy has the type; else (bf16, fp8, int4 ...) ARRAY.bin, dense rows first "
      "and\n"
      "packed below a byte, beside ARRAY.json: {\"element_type\": \"bf16\", \"shape\": [2048, "
      "8192]}.\n"
      "Bytes of a name outside [A-Za-z0-9._-] are %XX in the file's.");
  auto options = std::make_shared<PutOptions>();
  AddSocketFlags(*put, options->worker);
  AddOutputFlag(*put, options->format);
  put->add_option("STATE", options->state, "jobs/{job}/states/{state}")->required();
  put->add_option("FOLDER", options->folder, "Folder of the files")->required();
  put->add_option("--array", options->arrays, "Only this array; may be repeated")
      ->allow_extra_args(false);
  put->add_flag("--no-seal", options->no_seal, "Write, but do not declare it written");
  put->add_flag("--unseal", options->unseal,
                "Take sealed shards back first, to write them again. The state must not move. If a "
                "file cannot be read then, put it again: the shards stay unsealed");
  put->callback([&command, options] { command = [options] { return Put(*options); }; });
}

}  // namespace remesh::client
