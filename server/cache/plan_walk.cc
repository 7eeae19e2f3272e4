// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_walk.h"

#include "absl/hash/hash.h"
#include "absl/time/time.h"

namespace remesh::server {
namespace {

bool ComesBefore(const PlanCache::Place& a, const PlanCache::Place& b) {
  return a.created != b.created ? a.created > b.created : a.name < b.name;
}

}  // namespace

PlanCache::Place PlaceOf(const v1::Plan& plan) {
  const google::protobuf::Timestamp& created = plan.create_time();
  return {absl::FromUnixSeconds(created.seconds()) + absl::Nanoseconds(created.nanos()),
          plan.name()};
}

PlanCache::Place PlanWalk::BeginPage() {
  reading_ = true;
  return *next_;
}

void PlanWalk::EndPage(const std::optional<PlanCache::Place>& next) {
  reading_ = false;
  next_ = next;
  if (next_ && last_ && !ComesBefore(*next_, *last_)) next_.reset();
}

bool PlanWalk::IsToCome(const PlanCache::Place& place) const {
  // The page that is being read may show the plan as it was before.
  return wants_page() && ComesBefore(*next_, place) && (!last_ || !ComesBefore(*last_, place));
}

void PlanWalk::Miss(const PlanCache::Place& place) {
  if (!missed_ || ComesBefore(*missed_, place)) missed_ = place;
}

void PlanWalk::Restart() {
  next_ = PlanCache::Place();
  last_ = missed_;
  missed_.reset();
  ++restarts_;
}

NamesTold::Bits NamesTold::BitsOf(const std::string& name) {
  const size_t hash = absl::HashOf(name);
  return {hash % kBits, (hash / kBits) % kBits};
}

void NamesTold::Add(const std::string& name) {
  if (bits_ == nullptr) bits_ = std::make_unique<std::bitset<kBits>>();
  for (const size_t bit : BitsOf(name)) bits_->set(bit);
}

bool NamesTold::MayHave(const std::string& name) const {
  if (bits_ == nullptr) return false;
  for (const size_t bit : BitsOf(name)) {
    if (!bits_->test(bit)) return false;
  }
  return true;
}

}  // namespace remesh::server
