// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/cache/listed_plan.h"

namespace remesh::server {

// Plans in memory: each plan once, by fingerprint, and bound under names. When there are too many,
// plans made ahead go first that take more than a quarter of the limits for one caller; then the
// names that were not used for longest; never one that is pinned or in use. A value with no lock,
// clock or disk.
class MemoryTier {
 public:
  struct Limits {
    int64_t max_bytes = 0;
    int64_t max_entries = 0;                            // of names; 0: no limit
    absl::Duration max_age = absl::InfiniteDuration();  // since the last use
  };
  explicit MemoryTier(Limits limits) : limits_(limits) {}

  struct Name {
    ListedPlan listed;
    int64_t own_bytes = 0;  // binding and spec
    uint64_t order = 0;     // rises with every use of any name
    bool changed = false;   // the disk does not have the newest facts yet
    std::string ahead_of;   // see SetAhead()

    bool kept() const { return listed.facts.pinned || listed.users > 0; }
  };

  // Null when there is no such name. Valid until the name is removed.
  Name* Find(const std::string& name);
  std::shared_ptr<const CachedPlan> FindPlan(const std::string& fingerprint) const;
  // Adds a plan under its name, as used now. Replaces an earlier plan of that name.
  Name& Add(const BoundPlanPtr& plan, NameFacts facts);
  void Touch(Name& name, absl::Time now);
  void Remove(const std::string& name);
  // Counts the name among those made ahead for `caller`, which no one has asked for; "": someone
  // has.
  void SetAhead(Name& name, const std::string& caller);

  // The name that must go next to keep within the limits, with the cause; null when none must.
  // Never `spared`. The one that was used last stays though it takes more than max_bytes, unless
  // that is 0: it is probably asked for next, and to read it from disk takes more memory still.
  std::pair<const Name*, EvictionCause> NextToEvict(absl::Time now,
                                                    const std::string& spared) const;

  // Up to `count` names after (created, name), newest first, equal times by name.
  std::vector<const Name*> NamesAfter(absl::Time created, const std::string& name,
                                      size_t count) const;
  const std::map<std::string, Name>& names() const { return names_; }

  int64_t bytes() const { return bytes_; }
  int64_t pinned_count() const;
  int64_t plan_count() const { return static_cast<int64_t>(entries_.size()); }
  const Limits& limits() const { return limits_; }
  void SetLimits(Limits limits) { limits_ = limits; }  // NextToEvict() must follow

 private:
  struct Entry {
    std::shared_ptr<const CachedPlan> cached;
    std::set<std::string> names;
    int64_t bytes = 0;
  };
  // The names made ahead for one caller.
  struct Ahead {
    std::set<uint64_t> orders;
    int64_t bytes = 0;
  };
  const Name* AheadToEvict(const std::string& spared) const;
  // Newest first.
  struct Newest {
    using Key = std::pair<absl::Time, std::string>;
    bool operator()(const Key& a, const Key& b) const {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    }
  };

  Limits limits_;
  std::map<std::string, Entry> entries_;  // by fingerprint
  std::map<std::string, Name> names_;
  std::map<uint64_t, std::string> by_use_;  // oldest first
  std::map<std::string, Ahead> ahead_;      // by caller; none is empty
  std::set<Newest::Key, Newest> by_creation_;
  int64_t bytes_ = 0;
  uint64_t next_use_ = 1;
};

}  // namespace remesh::server
