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

// How far somebody has come who reads the list of plans page by page while it changes, and how far
// he has to read again. A value with no lock.
class PlanWalk {
 public:
  // There are pages to be read, and none is being read.
  bool wants_page() const { return next_.has_value() && !reading_; }
  bool reading() const { return reading_; }
  // Somebody begins to read the page that comes after the place. REQUIRES: wants_page().
  PlanCache::Place BeginPage();
  // It has been read; `next`: see PlanPage. REQUIRES: reading().
  void EndPage(const std::optional<PlanCache::Place>& next);

  // Whether the plan at this place is on pages that nobody has begun to read.
  bool IsToCome(const PlanCache::Place& place) const;
  // What became of the plan at this place was not kept: it must be read again.
  void Miss(const PlanCache::Place& place);
  // Pages that have been read must be read again once the walk is at its end.
  bool missed() const { return missed_.has_value(); }
  // Begins again at the newest, to end at the furthest that was missed. REQUIRES: missed(), and no
  // page is wanted or being read.
  void Restart();
  int restarts() const { return restarts_; }

 private:
  std::optional<PlanCache::Place> next_ = PlanCache::Place();
  std::optional<PlanCache::Place> last_;  // where this walk ends; none: with the last plan
  std::optional<PlanCache::Place> missed_;
  bool reading_ = false;
  int restarts_ = 0;
};

// Names that somebody was told, in 16 KiB however many there are: it forgets none, and the more it
// has the more often it takes another for one of them. A value with no lock.
class NamesTold {
 public:
  void Add(const std::string& name);
  bool MayHave(const std::string& name) const;

 private:
  static constexpr size_t kBits = 1 << 17;  // of 10,000 others it takes 2 in 100 for known
  using Bits = std::array<size_t, 2>;
  static Bits BitsOf(const std::string& name);

  std::unique_ptr<std::bitset<kBits>> bits_;  // none: no name
};

}  // namespace remesh::server
