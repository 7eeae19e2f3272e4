// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/crossings.h"

#include <algorithm>
#include <utility>

namespace remesh::planner {
namespace {

struct Member {
  int32_t unit = 0;  // the child of the current domain that contains the host
  int32_t host = 0;
  bool holds = false;
};

class Splitter {
 public:
  explicit Splitter(const Units& units) : units_(units) {}

  // Splits the members of one domain of `level` (-1: all) by child. Returns the crossing between
  // its children, or -1.
  int32_t Split(std::vector<Member> members, int level) {
    for (Member& member : members) {
      const bool inside = level + 1 < units_.levels();
      member.unit = inside ? units_.UnitAt(member.host, level + 1) : member.host;
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const Member& a, const Member& b) { return a.unit < b.unit; });
    if (members.front().unit == members.back().unit) {
      return units_.IsHost(members.front().unit) ? -1 : Split(std::move(members), level + 1);
    }
    std::vector<std::vector<Member>> children = ChildrenOf(members);
    const auto middle = std::stable_partition(children.begin(), children.end(), Holds);
    const auto holding = static_cast<int32_t>(middle - children.begin());
    const auto needing = static_cast<int64_t>(children.end() - middle);
    const int64_t copies = holding > 0 ? needing : needing - 1;
    const auto index = copies > 0 ? static_cast<int32_t>(crossings_.size()) : -1;
    if (copies > 0) {
      const int32_t host = members.front().host;
      crossings_.push_back({.domain = units_.DomainAt(host, level),
                            .hosts = {},
                            .children = {},
                            .holding = holding,
                            .copies = copies});
      for (const auto& child : children) AddChild(child, crossings_.back());
    }
    for (size_t c = 0; c < children.size(); ++c) {
      if (children[c].size() == 1) continue;
      const int32_t inner = Split(std::move(children[c]), level + 1);
      if (index >= 0) crossings_[index].children[c].crossing = inner;
    }
    return index;
  }

  std::vector<Crossing> Take() { return std::move(crossings_); }

 private:
  static bool Holds(const std::vector<Member>& child) {
    return std::any_of(child.begin(), child.end(), [](const Member& m) { return m.holds; });
  }

  static std::vector<std::vector<Member>> ChildrenOf(const std::vector<Member>& members) {
    std::vector<std::vector<Member>> children;
    for (size_t m = 0; m < members.size(); ++m) {
      if (m == 0 || members[m].unit != members[m - 1].unit) children.emplace_back();
      children.back().push_back(members[m]);
    }
    return children;
  }

  static void AddChild(const std::vector<Member>& members, Crossing& crossing) {
    const auto begin = static_cast<int32_t>(crossing.hosts.size());
    for (const Member& member : members) crossing.hosts.push_back(member.host);
    crossing.children.push_back(
        {.begin = begin, .end = static_cast<int32_t>(crossing.hosts.size())});
  }

  const Units& units_;
  std::vector<Crossing> crossings_;
};

}  // namespace

std::vector<Crossing> CrossingsOf(const DemandClass& demand, const Units& units) {
  std::vector<Member> members;
  for (int32_t host : demand.holders) members.push_back({.host = host, .holds = true});
  for (int32_t host : demand.needers) members.push_back({.host = host, .holds = false});
  Splitter splitter(units);
  splitter.Split(std::move(members), -1);
  return splitter.Take();
}

}  // namespace remesh::planner
