// SPDX-License-Identifier: Apache-2.0
#include "server/questions/scenarios.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/questions/join_spec.h"

namespace remesh::server {

using planner::Budget;

namespace {

// The devices of one host, in the order of the elastic list, or of the topology for spare hosts.
struct HostGroup {
  std::string name;
  std::vector<int64_t> devices;
};

class ScenarioList {
 public:
  explicit ScenarioList(const ElasticLayout& layout) : now_(layout.devices) {
    absl::flat_hash_map<int64_t, const v1::Host*> host_of;
    for (const v1::Host& host : layout.spec.topology().hosts()) {
      for (const int64_t id : host.device_ids()) host_of[id] = &host;
    }
    absl::flat_hash_map<const v1::Host*, size_t> index;
    for (const int64_t id : now_) {
      const v1::Host* const host = host_of.at(id);
      const auto [entry, added] = index.try_emplace(host, members_.size());
      if (added) members_.push_back({.name = host->name(), .devices = {}});
      members_[entry->second].devices.push_back(id);
    }
    for (const v1::Host& host : layout.spec.topology().hosts()) {
      if (index.contains(&host)) continue;
      spares_.push_back(
          {.name = host.name(), .devices = {host.device_ids().begin(), host.device_ids().end()}});
    }
  }

  size_t member_count() const { return members_.size(); }

  void AddAnyOne(v1::Scenario::Event event, Budget& budget) {
    for (const HostGroup& host : members_) {
      if (budget.SpentNow()) return;
      Add(event, {host.name}, host.devices);
    }
  }

  void AddPlusMinus(size_t count, Budget& budget) {
    const std::vector<HostGroup> last_first(members_.rbegin(), members_.rend());
    AddSteps(v1::Scenario::SHRINK, last_first, count, budget);
    AddSteps(v1::Scenario::GROW, spares_, count, budget);
  }

  std::vector<ScenarioReshard> Take() && { return std::move(moves_); }

 private:
  // Adds the event of the first host, of the first two, and so on.
  void AddSteps(v1::Scenario::Event event, const std::vector<HostGroup>& hosts, size_t count,
                Budget& budget) {
    std::vector<std::string> names;
    std::vector<int64_t> devices;
    for (size_t i = 0; i < std::min(count, hosts.size()); ++i) {
      if (budget.SpentNow()) return;
      names.push_back(hosts[i].name);
      devices.insert(devices.end(), hosts[i].devices.begin(), hosts[i].devices.end());
      Add(event, names, devices);
    }
  }

  void Add(v1::Scenario::Event event, const std::vector<std::string>& hosts,
           const std::vector<int64_t>& devices) {
    ScenarioReshard& move = moves_.emplace_back();
    move.scenario.set_event(event);
    *move.scenario.mutable_hosts() = {hosts.begin(), hosts.end()};
    move.changing = devices;
    const auto now = static_cast<int64_t>(now_.size());
    const auto changing = static_cast<int64_t>(devices.size());
    move.scenario.set_devices_before(event == v1::Scenario::RETURN ? now - changing : now);
    move.scenario.set_devices_after(event == v1::Scenario::RETURN ? now
                                    : event == v1::Scenario::GROW ? now + changing
                                                                  : now - changing);
  }

  const std::vector<int64_t>& now_;
  std::vector<HostGroup> members_;  // in the order of the list
  std::vector<HostGroup> spares_;
  std::vector<ScenarioReshard> moves_;
};

std::vector<int64_t> Without(const std::vector<int64_t>& devices,
                             const std::vector<int64_t>& leaving) {
  const absl::flat_hash_set<int64_t> gone(leaving.begin(), leaving.end());
  std::vector<int64_t> others;
  std::copy_if(devices.begin(), devices.end(), std::back_inserter(others),
               [&](int64_t id) { return !gone.contains(id); });
  return others;
}

std::vector<int64_t> DevicesBefore(const ScenarioReshard& move, const ElasticLayout& layout) {
  if (move.scenario.event() != v1::Scenario::RETURN) return layout.devices;
  return Without(layout.devices, move.changing);
}

std::vector<int64_t> DevicesAfter(const ScenarioReshard& move, const ElasticLayout& layout) {
  if (!move.joins()) return Without(layout.devices, move.changing);
  std::vector<int64_t> after = layout.devices;
  if (move.scenario.event() == v1::Scenario::GROW)
    after.insert(after.end(), move.changing.begin(), move.changing.end());
  return after;
}

absl::Status Pointless(std::string_view reason, std::string_view what) {
  return MakeError(absl::StatusCode::kFailedPrecondition, what,
                   {.reason = std::string(reason), .metadata = {}});
}

}  // namespace

absl::StatusOr<std::vector<ScenarioReshard>> ScenariosOf(const v1::PrecomputePlansRequest& request,
                                                         const ElasticLayout& layout,
                                                         Budget& budget) {
  if (request.hosts_plus_minus() < 0) {
    return InvalidField("hosts_plus_minus", absl::StrCat(request.hosts_plus_minus()),
                        "must be >= 0");
  }
  ScenarioList list(layout);
  const size_t kinds =
      request.lose_any_one_host() + request.drain_any_one_host() + request.return_any_one_host();
  const size_t steps = static_cast<size_t>(request.hosts_plus_minus());
  if (kinds == 0 && steps == 0) {
    return InvalidField("lose_any_one_host", "false", "or another kind of event must be set");
  }
  if (kinds * list.member_count() + 2 * steps > kScenariosMax) {
    return InvalidField("elastic_list", layout.list,
                        absl::StrCat("and the events lead to more than ", kScenariosMax,
                                     " scenarios: ask for fewer"));
  }
  if (request.lose_any_one_host()) list.AddAnyOne(v1::Scenario::LOSE, budget);
  if (request.drain_any_one_host()) list.AddAnyOne(v1::Scenario::DRAIN, budget);
  if (request.return_any_one_host()) list.AddAnyOne(v1::Scenario::RETURN, budget);
  list.AddPlusMinus(steps, budget);
  RETURN_IF_ERROR(budget.Check());
  return std::move(list).Take();
}

absl::StatusOr<v1::PlanSpec> QuestionOf(const ScenarioReshard& move, const ElasticLayout& layout,
                                        const v1::PlanOptions& options) {
  if (move.scenario.devices_before() == 0 || move.scenario.devices_after() == 0) {
    return Pointless("NOBODY_LEFT", "no host of the list is left");
  }
  ASSIGN_OR_RETURN(const v1::StateSpec before, ScaledTo(layout, DevicesBefore(move, layout)));
  ASSIGN_OR_RETURN(const v1::StateSpec after, ScaledTo(layout, DevicesAfter(move, layout)));
  v1::PlanOptions with_lost = options;
  if (move.scenario.event() == v1::Scenario::LOSE) {
    for (const int64_t id : move.changing) with_lost.add_lost_device_ids(id);
  }
  return JoinSpecs(before, after, with_lost);
}

}  // namespace remesh::server
