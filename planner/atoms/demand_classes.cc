// SPDX-License-Identifier: Apache-2.0
#include "planner/atoms/demand_classes.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "planner/atoms/index_of_pair.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

// The hosts of each group. Looks at each group once; groups on equal hosts get the same number.
class HostGroups {
 public:
  HostGroups(const Atoms& atoms, const Network& network, Budget& budget) {
    Group hosts;
    number_of_.reserve(atoms.groups.size());
    for (const Group& group : atoms.groups) {
      if (budget.Spent()) return;
      hosts.clear();
      for (int32_t device : group) {
        const int32_t host = network.host_of[device];
        if (hosts.empty() || hosts.back() != host) hosts.push_back(host);
      }
      const auto [entry, inserted] =
          number_of_hosts_.try_emplace(hosts, static_cast<int32_t>(hosts_.size()));
      if (inserted) hosts_.push_back(hosts);
      number_of_.push_back(entry->second);
    }
  }

  size_t count() const { return hosts_.size(); }
  int32_t NumberOf(int32_t group) const { return number_of_[group]; }
  const Group& Hosts(int32_t number) const { return hosts_[number]; }
  // -1: no group is on these hosts.
  int32_t NumberOfHosts(const Group& hosts) const {
    const auto found = number_of_hosts_.find(hosts);
    return found == number_of_hosts_.end() ? -1 : found->second;
  }

 private:
  absl::flat_hash_map<Group, int32_t> number_of_hosts_;
  std::vector<int32_t> number_of_;
  std::vector<Group> hosts_;
};

// Returns the demand class for a pair of holders and needers (numbers of HostGroups); -1 where no
// host needs anything.
class ClassMaker {
 public:
  ClassMaker(const HostGroups& hosts, size_t tapes, std::vector<DemandClass>& classes)
      : hosts_(hosts), classes_(classes), of_pair_(hosts.count(), tapes) {}

  int32_t ClassOf(int32_t holders, int32_t needers) {
    const int32_t known = of_pair_.At(holders, needers);
    if (known != IndexOfPair::kUnknown) return known;
    const int32_t made = Make(holders, needers);
    of_pair_.At(holders, needers) = made;
    return made;
  }

 private:
  int32_t Make(int32_t holders, int32_t all_needers) {
    const Group& holding = hosts_.Hosts(holders);
    const Group& needing = hosts_.Hosts(all_needers);
    Group needers;
    std::set_difference(needing.begin(), needing.end(), holding.begin(), holding.end(),
                        std::back_inserter(needers));
    if (needers.empty()) return -1;
    if (needers.size() == needing.size()) return Add(holding, std::move(needers));
    // Some of these hosts hold the tape. The others may be all that need another one.
    const int32_t others = hosts_.NumberOfHosts(needers);
    return others >= 0 ? ClassOf(holders, others) : Find(holding, std::move(needers));
  }

  int32_t Add(const Group& holders, Group needers) {
    before_.push_back(-1);
    classes_.push_back({.holders = holders, .needers = std::move(needers), .tapes = {}, .bits = 0});
    return static_cast<int32_t>(classes_.size()) - 1;
  }

  // The class of needers that no group is, which may have come before. There may be millions, so
  // they are neither stored twice nor hashed again.
  int32_t Find(const Group& holders, Group needers) {
    const auto index = static_cast<int32_t>(classes_.size());
    const auto [entry, inserted] = last_of_hash_.try_emplace(absl::HashOf(holders, needers), index);
    for (int32_t known = inserted ? -1 : entry->second; known >= 0; known = before_[known]) {
      if (classes_[known].holders == holders && classes_[known].needers == needers) return known;
    }
    Add(holders, std::move(needers));
    before_.back() = inserted ? -1 : entry->second;
    entry->second = index;
    return index;
  }

  const HostGroups& hosts_;
  std::vector<DemandClass>& classes_;
  IndexOfPair of_pair_;
  absl::flat_hash_map<size_t, int32_t> last_of_hash_;  // of those that Find() added
  std::vector<int32_t> before_;  // class -> the previous class with an equal hash, -1: none
};

}  // namespace

DemandClasses MakeDemandClasses(const Atoms& atoms, const Network& network, Budget& budget) {
  const HostGroups hosts(atoms, network, budget);
  DemandClasses result;
  Reserve(result.classes, std::min(atoms.tapes.size(), hosts.count() * hosts.count()));  // at most
  result.class_of.assign(atoms.tapes.size(), -1);
  if (budget.SpentNow()) return result;
  ClassMaker maker(hosts, atoms.tapes.size(), result.classes);
  for (size_t s = 0; s < atoms.tapes.size(); ++s) {
    if (budget.Spent()) return result;
    const Tape& tape = atoms.tapes[s];
    if (tape.bits == 0) continue;
    const int32_t index = maker.ClassOf(hosts.NumberOf(tape.holders), hosts.NumberOf(tape.needers));
    if (index < 0) continue;
    result.classes[index].tapes.push_back(static_cast<int32_t>(s));
    result.classes[index].bits += tape.bits;
    result.class_of[s] = index;
  }
  return result;
}

}  // namespace remesh::planner
