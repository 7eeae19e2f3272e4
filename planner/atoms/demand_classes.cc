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
    absl::flat_hash_map<Group, int32_t> number;
    Group hosts;
    number_of_.reserve(atoms.groups.size());
    for (const Group& group : atoms.groups) {
      if (budget.Spent()) return;
      hosts.clear();
      for (int32_t device : group) {
        const int32_t host = network.host_of[device];
        if (hosts.empty() || hosts.back() != host) hosts.push_back(host);
      }
      const auto [entry, inserted] = number.try_emplace(hosts, static_cast<int32_t>(hosts_.size()));
      if (inserted) hosts_.push_back(hosts);
      number_of_.push_back(entry->second);
    }
  }

  size_t count() const { return hosts_.size(); }
  int32_t NumberOf(int32_t group) const { return number_of_[group]; }
  const Group& Hosts(int32_t number) const { return hosts_[number]; }

 private:
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
    int32_t& of_pair = of_pair_.At(holders, needers);
    if (of_pair == IndexOfPair::kUnknown) {
      of_pair = Make(hosts_.Hosts(holders), hosts_.Hosts(needers));
    }
    return of_pair;
  }

 private:
  int32_t Make(const Group& holders, const Group& all_needers) {
    Group needers;
    std::set_difference(all_needers.begin(), all_needers.end(), holders.begin(), holders.end(),
                        std::back_inserter(needers));
    if (needers.empty()) return -1;
    const auto index = static_cast<int32_t>(classes_.size());
    const auto [entry, inserted] = last_of_hash_.try_emplace(absl::HashOf(holders, needers), index);
    for (int32_t known = inserted ? -1 : entry->second; known >= 0; known = before_[known]) {
      if (classes_[known].holders == holders && classes_[known].needers == needers) return known;
    }
    before_.push_back(inserted ? -1 : entry->second);
    entry->second = index;
    classes_.push_back({.holders = holders, .needers = std::move(needers), .tapes = {}, .bits = 0});
    return index;
  }

  const HostGroups& hosts_;
  std::vector<DemandClass>& classes_;
  IndexOfPair of_pair_;
  // Hashes of groups. There may be millions of groups, so they are neither stored twice nor hashed
  // again.
  absl::flat_hash_map<size_t, int32_t> last_of_hash_;
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
