// SPDX-License-Identifier: Apache-2.0
#include "server/planning/scenarios.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/planning/join_spec.h"

namespace remesh::server {
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

  void AddAnyOne(v1::Scenario::Event event) {
    for (const HostGroup& host : members_) {
      std::vector<int64_t> others = Without(host.devices);
      if (event == v1::Scenario::RETURN) {
        Add(event, {host.name}, std::move(others), now_, {});
      } else {
        Add(event, {host.name}, now_, std::move(others),
            event == v1::Scenario::LOSE ? host.devices : std::vector<int64_t>());
      }
    }
  }

  void AddPlusMinus(size_t count) {
    std::vector<std::string> names;
    std::vector<int64_t> leaving;
    for (size_t i = 0; i < std::min(count, members_.size()); ++i) {
      const HostGroup& host = members_[members_.size() - 1 - i];
      names.push_back(host.name);
      leaving.insert(leaving.end(), host.devices.begin(), host.devices.end());
      Add(v1::Scenario::SHRINK, names, now_, Without(leaving), {});
    }
    names.clear();
    std::vector<int64_t> grown = now_;
    for (size_t i = 0; i < std::min(count, spares_.size()); ++i) {
      names.push_back(spares_[i].name);
      grown.insert(grown.end(), spares_[i].devices.begin(), spares_[i].devices.end());
      Add(v1::Scenario::GROW, names, now_, grown, {});
    }
  }

  std::vector<ScenarioReshard> Take() && { return std::move(moves_); }

 private:
  std::vector<int64_t> Without(const std::vector<int64_t>& leaving) const {
    const absl::flat_hash_set<int64_t> gone(leaving.begin(), leaving.end());
    std::vector<int64_t> others;
    std::copy_if(now_.begin(), now_.end(), std::back_inserter(others),
                 [&](int64_t id) { return !gone.contains(id); });
    return others;
  }

  void Add(v1::Scenario::Event event, const std::vector<std::string>& hosts,
           std::vector<int64_t> before, std::vector<int64_t> after, std::vector<int64_t> lost) {
    ScenarioReshard& move = moves_.emplace_back();
    move.scenario.set_event(event);
    *move.scenario.mutable_hosts() = {hosts.begin(), hosts.end()};
    move.scenario.set_devices_before(static_cast<int64_t>(before.size()));
    move.scenario.set_devices_after(static_cast<int64_t>(after.size()));
    move.before = std::move(before);
    move.after = std::move(after);
    move.lost = std::move(lost);
  }

  const std::vector<int64_t>& now_;
  std::vector<HostGroup> members_;  // in the order of the list
  std::vector<HostGroup> spares_;
  std::vector<ScenarioReshard> moves_;
};

absl::Status Pointless(std::string_view reason, std::string_view what) {
  return MakeError(absl::StatusCode::kFailedPrecondition, what,
                   {.reason = std::string(reason), .metadata = {}});
}

}  // namespace

absl::StatusOr<std::vector<ScenarioReshard>> ScenariosOf(const v1::PrecomputePlansRequest& request,
                                                         const ElasticLayout& layout) {
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
  if (request.lose_any_one_host()) list.AddAnyOne(v1::Scenario::LOSE);
  if (request.drain_any_one_host()) list.AddAnyOne(v1::Scenario::DRAIN);
  if (request.return_any_one_host()) list.AddAnyOne(v1::Scenario::RETURN);
  list.AddPlusMinus(steps);
  return std::move(list).Take();
}

absl::StatusOr<v1::PlanSpec> QuestionOf(const ScenarioReshard& move, const ElasticLayout& layout,
                                        const v1::PlanOptions& options) {
  if (move.before.empty() || move.after.empty()) {
    return Pointless("NOBODY_LEFT", "no host of the list is left");
  }
  ASSIGN_OR_RETURN(const v1::StateSpec before, ScaledTo(layout, move.before));
  ASSIGN_OR_RETURN(const v1::StateSpec after, ScaledTo(layout, move.after));
  v1::PlanOptions with_lost = options;
  for (const int64_t id : move.lost) with_lost.add_lost_device_ids(id);
  return JoinSpecs(before, after, with_lost);
}

}  // namespace remesh::server
