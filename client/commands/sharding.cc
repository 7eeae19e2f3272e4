// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/sharding_text.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/sdy_text.h"

namespace remesh::client {

using planner::HloSharding;

namespace {

absl::StatusOr<HloSharding> Parse(const std::string& text) {
  if (!IsShardyText(text)) return planner::ParseHloSharding(text);
  ASSIGN_OR_RETURN(const planner::NamedSharding named, planner::ParseSdySharding(text));
  return HloSharding{.form = planner::ToTiles(named)};
}

absl::Status Run(const std::string& text) {
  ASSIGN_OR_RETURN(const HloSharding sharding, Parse(text));
  std::cout << planner::PrintHloSharding(sharding) << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddSharding(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("sharding", "Check a sharding and print XLA's canonical text");
  auto text = std::make_shared<std::string>();
  sub->add_option("TEXT", *text, "Text of HLO, as in '{devices=[2,2]<=[4]}', or of Shardy")
      ->required();
  sub->callback([&command, text] { command = [text] { return Run(*text); }; });
}

}  // namespace remesh::client
