// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/plan_spec.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/missing_field.h"
#include "base/problems.h"
#include "base/status_macros.h"
#include "proto/convert/placed_arrays.h"
#include "proto/convert/presets/message_costs.h"
#include "proto/convert/presets/presets.h"
#include "proto/convert/shardings.h"

namespace remesh::proto {

using planner::ArraySpec;
using planner::Fallback;
using planner::ReshardRequest;
using planner::Strategy;
using planner::Topology;

namespace {

absl::StatusOr<Strategy> ToStrategy(v1::PlanOptions::Strategy strategy) {
  switch (strategy) {
    case v1::PlanOptions::STRATEGY_UNSPECIFIED:
    case v1::PlanOptions::OPTIMAL:
      return Strategy::kOptimal;
    case v1::PlanOptions::P2P:
      return Strategy::kP2p;
    case v1::PlanOptions::GATHER:
      return Strategy::kGather;
    default:
      return InvalidField("strategy", absl::StrCat(static_cast<int>(strategy)),
                          "is not a known strategy");
  }
}

absl::StatusOr<Fallback> ToFallback(const v1::Fallback& fallback) {
  Fallback value{.step = fallback.step()};
  if (fallback.step() < 0)
    return InvalidField("step", absl::StrCat(fallback.step()), "must be >= 0");
  switch (fallback.source_case()) {
    case v1::Fallback::kHostSnapshot:
      if (fallback.host_snapshot().empty())
        return InvalidField("host_snapshot", "", "must name a host");
      value.kind = Fallback::Kind::kHostSnapshot;
      value.location = fallback.host_snapshot();
      return value;
    case v1::Fallback::kCheckpoint:
      if (!absl::StartsWith(fallback.checkpoint(), "/")) {
        return InvalidField("checkpoint", fallback.checkpoint(), "must be an absolute path");
      }
      value.kind = Fallback::Kind::kCheckpoint;
      value.location = fallback.checkpoint();
      return value;
    default:
      return InvalidField("source", "", "must be set: host_snapshot or checkpoint");
  }
}

// A capacity that is not set is 0 on the wire.
absl::Status CheckGiven(const char* field, double bytes_per_second, const char* or_else) {
  if (bytes_per_second != 0) return absl::OkStatus();
  return MissingField(
      field, absl::StrCat("it must be a rate above 0, as in 12.5GB/s or 100Gbit/s", or_else), "0");
}

absl::Status CheckCapacitiesGiven(const v1::Host& host) {
  constexpr char kOrElse[] = ", or preset must name a machine";
  Problems problems;
  RETURN_IF_ERROR(
      problems.Note(CheckGiven("nic_bytes_per_second", host.nic_bytes_per_second(), kOrElse)));
  RETURN_IF_ERROR(problems.Note(
      CheckGiven("fabric_bytes_per_second", host.fabric_bytes_per_second(), kOrElse)));
  return problems.ToStatus();
}

// Fills the host from its preset and checks that it has capacities then. After a refusal it has
// some, so that nothing more is said of them.
absl::Status FillCapacities(v1::Host& host) {
  absl::Status status = FillFromPreset(host);
  if (status.ok()) return CheckCapacitiesGiven(host);
  host.set_nic_bytes_per_second(1);
  host.set_fabric_bytes_per_second(1);
  return status;
}

absl::StatusOr<ArraySpec> ToArray(const v1::ArraySpec& array, int index, Shardings& shardings) {
  Problems problems;
  auto source = ToPlacedArray(array, index, "source", array.source(), shardings);
  RETURN_IF_ERROR(problems.Note(source.status()));
  const planner::Shape shape(array.shape().begin(), array.shape().end());
  if (!source.ok() && !planner::ValidateShape(shape, 8).ok()) return problems.ToStatus();
  auto target = shardings.Resolve(array.target(), shape,
                                  [&] { return absl::StrCat("arrays[", index, "].target"); });
  RETURN_IF_ERROR(problems.Note(target.status()));
  if (!problems.empty()) return problems.ToStatus();
  return ArraySpec{std::move(source->name), std::move(source->shape), source->element_type,
                   std::move(source->placement), *std::move(target)};
}

// Puts the indices in the spec in place of those in `arrays`, which lacks arrays that were refused.
absl::Status Renumbered(const absl::Status& status, const std::vector<int>& indices) {
  const auto field_of = [&](const std::string& field) {
    const size_t end = field.find(']');
    size_t index = 0;
    if (!absl::StartsWith(field, "arrays[") || end == std::string::npos ||
        !absl::SimpleAtoi(field.substr(7, end - 7), &index) || index >= indices.size())
      return field;
    return absl::StrCat("arrays[", indices[index], field.substr(end));
  };
  const auto facts = GetErrorInfo(status).metadata;
  const auto field = facts.find("field");
  if (status.ok() || field == facts.end() || !facts.contains("expectation")) return status;
  std::vector<FurtherProblem> further = FurtherProblems(status);
  for (FurtherProblem& problem : further) problem.field = field_of(problem.field);
  return WithFurther(
      InvalidField(field_of(field->second), facts.at("value"), facts.at("expectation")), further);
}

}  // namespace

absl::StatusOr<Topology> ToTopology(const v1::Topology& topology, const Topology* fallback) {
  if (topology.hosts().empty() && topology.domains().empty()) {
    if (fallback == nullptr) {
      return InvalidField("hosts", "", "must name a host, for no workers are known here");
    }
    // The caller may keep what it derives from the topology, and that is validated when it is read
    // back.
    RETURN_IF_ERROR(planner::ValidateTopology(*fallback));
    return *fallback;
  }
  Topology value;
  Problems problems;
  for (int i = 0; i < topology.hosts_size(); ++i) {
    v1::Host host = topology.hosts(i);
    RETURN_IF_ERROR(problems.Note(AtIndex("hosts", i, FillCapacities(host))));
    planner::MessageCosts costs;
    OverrideMessageCosts(host, costs);
    value.hosts.push_back({.name = host.name(),
                           .device_ids = {host.device_ids().begin(), host.device_ids().end()},
                           .nic_bytes_per_second = host.nic_bytes_per_second(),
                           .nics = host.nics() == 0 ? 1 : host.nics(),
                           .fabric_bytes_per_second = host.fabric_bytes_per_second(),
                           .parent = host.parent(),
                           .message_costs = costs,
                           .capacities_assumed = host.capacities_assumed()});
  }
  for (int i = 0; i < topology.domains_size(); ++i) {
    const v1::Domain& domain = topology.domains(i);
    RETURN_IF_ERROR(problems.Note(
        AtIndex("domains", i,
                CheckGiven("egress_bytes_per_second", domain.egress_bytes_per_second(), ""))));
    RETURN_IF_ERROR(problems.Note(
        AtIndex("domains", i,
                CheckGiven("ingress_bytes_per_second", domain.ingress_bytes_per_second(), ""))));
    value.domains.push_back({.name = domain.name(),
                             .parent = domain.parent(),
                             .egress_bytes_per_second = domain.egress_bytes_per_second(),
                             .ingress_bytes_per_second = domain.ingress_bytes_per_second()});
  }
  RETURN_IF_ERROR(problems.Note(planner::ValidateTopology(value)));
  if (!problems.empty()) return problems.ToStatus();
  return value;
}

absl::StatusOr<planner::PlanOptions> ToPlanOptions(const v1::PlanOptions& options) {
  planner::PlanOptions value;
  if (options.window_bytes() < 0) {
    return InvalidField("window_bytes", absl::StrCat(options.window_bytes()), "must be >= 0");
  }
  if (options.memory_limit_bytes() < 0) {
    return InvalidField("memory_limit_bytes", absl::StrCat(options.memory_limit_bytes()),
                        "must be >= 0");
  }
  if (options.window_bytes() > 0) value.window_bytes = options.window_bytes();
  value.memory_limit_bytes = options.memory_limit_bytes();
  value.donate = options.donate();
  value.free_target_order = options.free_target_order();
  value.lost_device_ids.assign(options.lost_device_ids().begin(), options.lost_device_ids().end());
  ASSIGN_OR_RETURN(value.strategy, ToStrategy(options.strategy()));
  return value;
}

absl::StatusOr<ReshardRequest> ToReshardRequest(const v1::PlanSpec& spec, const Topology* fallback,
                                                planner::Budget& budget) {
  ReshardRequest request;
  Problems problems;
  auto topology = ToTopology(spec.topology(), fallback);
  RETURN_IF_ERROR(problems.Note(AtField("topology", topology.status())));
  const bool has_topology = topology.ok();
  if (has_topology) request.topology = *std::move(topology);
  auto options = ToPlanOptions(spec.options());
  RETURN_IF_ERROR(problems.Note(AtField("options", options.status())));
  if (options.ok()) request.options = *std::move(options);
  for (int i = 0; i < spec.fallbacks_size(); ++i) {
    auto value = ToFallback(spec.fallbacks(i));
    RETURN_IF_ERROR(problems.Note(AtField(absl::StrCat("fallbacks[", i, "]"), value.status())));
    if (value.ok()) request.fallbacks.push_back(*std::move(value));
  }
  Shardings shardings(budget);
  RETURN_IF_ERROR(problems.Note(shardings.SetNamed(spec.shardings(), spec.device_lists())));
  std::vector<int> indices;  // of the arrays of the request, in the spec
  request.arrays.reserve(spec.arrays_size());
  for (int i = 0; i < spec.arrays_size(); ++i) {
    absl::StatusOr<ArraySpec> array = ToArray(spec.arrays(i), i, shardings);
    RETURN_IF_ERROR(problems.Note(array.status()));
    RETURN_IF_ERROR(budget.Check());
    if (!array.ok()) continue;
    request.arrays.push_back(*std::move(array));
    indices.push_back(i);
  }
  if (problems.empty()) {
    RETURN_IF_ERROR(planner::ValidateRequest(request, budget));
    return request;
  }
  if (has_topology && !request.arrays.empty()) {
    RETURN_IF_ERROR(problems.Note(Renumbered(planner::ValidateRequest(request, budget), indices)));
  }
  return problems.ToStatus();
}

absl::StatusOr<ReshardRequest> ToReshardRequest(const StateLayout& source,
                                                const StateLayout& target,
                                                const v1::PlanOptions& options,
                                                planner::Budget& budget) {
  if (source.arrays.size() != target.arrays.size()) {
    return InvalidField("arrays", absl::StrCat(target.arrays.size(), " arrays"),
                        absl::StrCat("must be ", source.arrays.size(), ", as the state has"));
  }
  ReshardRequest request{.topology = target.topology};
  auto values = ToPlanOptions(options);
  RETURN_IF_ERROR(AtField("options", values.status()));
  request.options = *std::move(values);
  for (size_t i = 0; i < source.arrays.size(); ++i) {
    const PlacedArray &from = source.arrays[i], &to = target.arrays[i];
    if (from.name != to.name || from.shape != to.shape || from.element_type != to.element_type) {
      return InvalidField(
          absl::StrCat("arrays[", i, "]"), to.name,
          absl::StrCat("must be the state's array \"", from.name, "\", of equal shape and type"));
    }
    request.arrays.push_back(
        {from.name, from.shape, from.element_type, from.placement, to.placement});
  }
  RETURN_IF_ERROR(planner::ValidateRequest(request, budget));
  return request;
}

}  // namespace remesh::proto
