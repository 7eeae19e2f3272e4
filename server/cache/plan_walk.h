// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "server/cache/plan_cache.h"

namespace remesh::server {

// The place of a plan in lists: newest first, equal times by name.
PlanCache::Place PlaceOf(const v1::Plan& plan);

// The progress of a reader who reads the list of plans page by page while the list changes, and
// what the reader must read again. A value with no lock.
class PlanWalk {
 public:
  // Whether there are pages to read and none is being read.
  bool wants_page() const { return next_.has_value() && !reading_; }
  bool reading() const { return reading_; }
  // A page is now being read: the one after the returned place. REQUIRES: wants_page().
  PlanCache::Place BeginPage();
  // The page has been read; `next`: see PlanPage. REQUIRES: reading().
  void EndPage(const std::optional<PlanCache::Place>& next);

  // Whether the plan at this place is on a page that has not been begun.
  bool IsToCome(const PlanCache::Place& place) const;
  // An event of the plan at this place was dropped: the place must be read again.
  void Miss(const PlanCache::Place& place);
  // Whether pages must be read again once the walk is at its end.
  bool missed() const { return missed_.has_value(); }
  // Begins again at the newest plan, to end at the furthest missed one. REQUIRES: missed(), and no
  // page is wanted or being read.
  void Restart();
  int restarts() const { return restarts_; }

 private:
  std::optional<PlanCache::Place> next_ = PlanCache::Place();
  std::optional<PlanCache::Place> last_;  // where this walk ends; none: at the last plan
  std::optional<PlanCache::Place> missed_;
  bool reading_ = false;
  int restarts_ = 0;
};

// The names that a watcher has been told, in 16 KiB however many they are (a Bloom filter). It
// never forgets a name, but the more names it has, the more often it reports one that was not
// added. A value with no lock.
class NamesTold {
 public:
  void Add(const std::string& name);
  bool MayHave(const std::string& name) const;

 private:
  static constexpr size_t kBits = 1 << 17;  // with 10,000 names, 2 in 100 others seem known
  using Bits = std::array<size_t, 2>;
  static Bits BitsOf(const std::string& name);

  std::unique_ptr<std::bitset<kBits>> bits_;  // null: no name
};

}  // namespace remesh::server
