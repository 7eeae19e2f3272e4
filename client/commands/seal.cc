// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/commands/write_flags.h"
#include "remesh/v1/local.grpc.pb.h"

namespace remesh::client {
namespace {

using LocalStub = v1::LocalService::Stub;

struct SealOptions {
  Endpoint worker;
  OutputFormat format = OutputFormat::kTable;
  std::string state, write;
  std::vector<std::string> arrays;
};

template <typename Request>
Request For(const SealOptions& options) {
  Request request;
  request.set_state(options.state);
  request.set_write(options.write);
  for (const std::string& array : options.arrays) request.add_shards()->set_array(array);
  return request;
}

void PrintSealed(const SealOptions& options, const v1::SealResponse& response) {
  Print(options.format, response, [&] {
    Table table({"SEALED HERE", "GENERATION"});
    table.AddRow({absl::StrCat(response.sealed_shards(), "/", response.total_shards()),
                  absl::StrCat(response.generation())});
    return table;
  });
}

absl::Status Seal(const SealOptions& options) {
  const auto stub = v1::LocalService::NewStub(ConnectSocket(options.worker));
  ASSIGN_OR_RETURN(const v1::SealResponse response,
                   Call(options.worker, *stub, &LocalStub::Seal, For<v1::SealRequest>(options)));
  PrintSealed(options, response);
  return absl::OkStatus();
}

absl::Status Unseal(const SealOptions& options) {
  const auto stub = v1::LocalService::NewStub(ConnectSocket(options.worker));
  ASSIGN_OR_RETURN(const v1::SealResponse response, Call(options.worker, *stub, &LocalStub::Unseal,
                                                         For<v1::UnsealRequest>(options)));
  PrintSealed(options, response);
  return absl::OkStatus();
}

void AddOptions(CLI::App& sub, Command& command, const char* footer,
                absl::Status (*run)(const SealOptions&)) {
  sub.footer(absl::StrCat(footer, "\n\n", kHelpOfWrites));
  auto options = std::make_shared<SealOptions>();
  AddSocketFlags(sub, options->worker);
  AddOutputFlag(sub, options->format);
  AddName(sub, kStateNames, options->state, "STATE");
  sub.add_option("--array", options->arrays, "Only this array; may be repeated")
      ->allow_extra_args(false);
  AddWriteFlag(sub, options->write);
  sub.callback([&command, options, run] { command = [options, run] { return run(*options); }; });
}

}  // namespace

void AddSeal(CLI::App& app, Command& command) {
  CLI::App* seal = app.add_subcommand("seal", "Declare this host's shards of a state written");
  AddOptions(*seal, command,
             "They are sealed with what they hold. If all of them are sealed already, --write lets "
             "the host\n"
             "join that write with its content unchanged.",
             Seal);
  CLI::App* unseal =
      app.add_subcommand("unseal", "Take this host's sealed shards of a state back, to be written");
  AddOptions(*unseal, command,
             "They keep what they hold until they are written, and the state is BUILDING until "
             "they are\n"
             "sealed again. Memory that a trainer lends is given back. The state must not move.",
             Unseal);
}

}  // namespace remesh::client
