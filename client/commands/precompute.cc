// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/input.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {
namespace {

struct PrecomputeOptions {
  Endpoint server{.address = kDefaultServer, .timeout_seconds = 300};
  OutputFormat format = OutputFormat::kTable;
  std::string spec;
  std::string state, list, axis;
  bool lose = false, drain = false, come_back = false, dry_run = false;
  int32_t plus_minus = 0;
};

Table Rows(const v1::PrecomputePlansResponse& response) {
  Table table({"EVENT", "HOSTS", "DEVICES", "OUTCOME", "PLAN"});
  for (const v1::Scenario& scenario : response.scenarios()) {
    table.AddRow({absl::AsciiStrToLower(v1::Scenario::Event_Name(scenario.event())),
                  absl::StrJoin(scenario.hosts(), ","),
                  absl::StrCat(scenario.devices_before(), "->", scenario.devices_after()),
                  absl::AsciiStrToLower(v1::Scenario::Outcome_Name(scenario.outcome())),
                  scenario.plan().empty() ? scenario.reason() : scenario.plan()});
  }
  return table;
}

absl::Status Run(const PrecomputeOptions& options) {
  v1::PrecomputePlansRequest request;
  if (!options.state.empty()) request.set_state(options.state);
  if (!options.spec.empty()) RETURN_IF_ERROR(ReadMessage(options.spec, *request.mutable_spec()));
  request.set_elastic_list(options.list);
  request.set_elastic_axis(options.axis);
  request.set_lose_any_one_host(options.lose);
  request.set_drain_any_one_host(options.drain);
  request.set_return_any_one_host(options.come_back);
  request.set_hosts_plus_minus(options.plus_minus);
  request.set_validate_only(options.dry_run);
  const auto stub = v1::PlanService::NewStub(ConnectServer(options.server));
  ASSIGN_OR_RETURN(const v1::PrecomputePlansResponse response,
                   Call(options.server, *stub, &v1::PlanService::Stub::PrecomputePlans, request));
  Print(options.format, response, [&] { return Rows(response); });
  return absl::OkStatus();
}

}  // namespace

void AddPrecompute(CLI::App& plans, Command& command) {
  CLI::App* sub = plans.add_subcommand("precompute", "Plan ahead what may happen next to a job");
  auto options = std::make_shared<PrecomputeOptions>();
  AddServerFlags(*sub, options->server);
  AddOutputFlag(*sub, options->format);
  CLI::Option_group* layout = sub->add_option_group("layout", "The job's present layout");
  layout->add_option("-f,--spec", options->spec,
                     "The target half of this PlanSpec, JSON or YAML; - is stdin");
  layout->add_option("--state", options->state, "That of jobs/{job}/states/{state}");
  layout->require_option(1);
  sub->add_option("--elastic", options->list,
                  "The device list that grows and shrinks; may be left out when there is one");
  sub->add_option(
      "--axis", options->axis,
      "Mesh axis that grows and shrinks: its name, or its index in DTensor and HLO forms");
  sub->add_flag("--lose-one", options->lose, "Any one host fails");
  sub->add_flag("--drain-one", options->drain, "Any one host leaves");
  sub->add_flag("--return-one", options->come_back, "Any one host comes back");
  sub->add_option("--plus-minus", options->plus_minus, "Up to this many hosts join or leave")
      ->transform(WholeNumber(0, std::numeric_limits<int32_t>::max()));
  sub->add_flag("--dry-run", options->dry_run, "List the plans without computing them");
  sub->callback([&command, options] {
    if (!options->lose && !options->drain && !options->come_back && options->plus_minus == 0) {
      throw CLI::RequiredError(
          "at least one of --lose-one, --drain-one, --return-one, --plus-minus");
    }
    command = [options] { return Run(*options); };
  });
}

}  // namespace remesh::client
