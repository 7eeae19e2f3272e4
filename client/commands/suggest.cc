// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/suggest.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/sharding_text.h"
#include "proto/convert/suggest.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {
namespace {

using PlanStub = v1::PlanService::Stub;

struct SuggestOptions {
  Endpoint server{.address = ""};
  OutputFormat format = OutputFormat::kTable;
  std::string source;
  std::string target;
};

Table Rows(const v1::SuggestIntermediateShardingResponse& response) {
  const v1::Sharding& sharding = response.intermediate();
  Table table(
      {"INTERMEDIATE", sharding.sdy_text().empty() ? sharding.hlo_text() : sharding.sdy_text()});
  const auto tiles = [](const auto& numbers) { return absl::StrJoin(numbers, " x "); };
  table.AddRow({"tiles", absl::StrCat(tiles(response.source_tiles()), " -> ",
                                      tiles(response.intermediate_tiles()), " -> ",
                                      tiles(response.target_tiles()))});
  table.AddRow({"replicas", absl::StrCat(response.replicas())});
  table.AddRow({"replicated axes", OrDash(absl::StrJoin(response.replicated_axes(), ", "))});
  return table;
}

absl::StatusOr<v1::SuggestIntermediateShardingResponse> Ask(
    const Endpoint& server, const v1::SuggestIntermediateShardingRequest& request) {
  if (server.address.empty()) return proto::SuggestIntermediateSharding(request);
  return Call(server, *v1::PlanService::NewStub(ConnectServer(server)),
              &PlanStub::SuggestIntermediateSharding, request);
}

absl::Status Run(const SuggestOptions& options) {
  v1::SuggestIntermediateShardingRequest request;
  *request.mutable_source() = ShardingOfText(options.source);
  *request.mutable_target() = ShardingOfText(options.target);
  ASSIGN_OR_RETURN(const auto response, Ask(options.server, request));
  Print(options.format, response, [&] { return Rows(response); });
  return absl::OkStatus();
}

}  // namespace

void AddSuggest(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "suggest", "Find a sharding to pass through where a direct move would gather");
  auto options = std::make_shared<SuggestOptions>();
  AddOutputFlag(*sub, options->format);
  AddServerFlag(*sub, options->server,
                "Address of remesh-server, HOST:PORT; without it, answer here");
  sub->add_option("--source", options->source, "Sharding, text of HLO or Shardy")->required();
  sub->add_option("--target", options->target, "Sharding, text of HLO or Shardy")->required();
  sub->callback([&command, options] { command = [options] { return Run(*options); }; });
}

}  // namespace remesh::client
