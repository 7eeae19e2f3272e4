// SPDX-License-Identifier: Apache-2.0
#include "server/cache/memory_tier.h"

#include <algorithm>
#include <utility>

#include "server/cache/held_bytes.h"

namespace remesh::server {
namespace {

constexpr int64_t kPartsForAhead = 4;  // plans made ahead for a caller may take one of them

// The memory of a name besides its binding and question: the name itself, five times, and the nodes
// of maps.
int64_t NodeBytes(const std::string& name) {
  return 5 * static_cast<int64_t>(name.size() + 32) +
         static_cast<int64_t>(sizeof(MemoryTier::Name) + sizeof(BoundPlan)) + 4 * 64;
}

}  // namespace

MemoryTier::Name* MemoryTier::Find(const std::string& name) {
  auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

std::shared_ptr<const CachedPlan> MemoryTier::FindPlan(const std::string& fingerprint) const {
  auto found = entries_.find(fingerprint);
  return found == entries_.end() ? nullptr : found->second.cached;
}

MemoryTier::Name& MemoryTier::Add(const BoundPlanPtr& plan, NameFacts facts) {
  if (Find(plan->name) != nullptr) Remove(plan->name);
  auto [entry, added] = entries_.try_emplace(plan->cached->request.fingerprint);
  if (added) {
    entry->second.cached = plan->cached;
    entry->second.bytes = HeldBytes(*plan->cached);
    bytes_ += entry->second.bytes;
  }
  entry->second.names.insert(plan->name);
  Name& name = names_[plan->name];
  name.own_bytes =
      HeldBytes(plan->binding) + static_cast<int64_t>(plan->spec->size()) + NodeBytes(plan->name);
  name.listed = {.plan = plan,
                 .facts = std::move(facts),
                 .cached_bytes = name.own_bytes + entry->second.bytes};
  bytes_ += name.own_bytes;
  by_creation_.insert({name.listed.facts.created, plan->name});
  Touch(name, name.listed.facts.used);
  return name;
}

void MemoryTier::Touch(Name& name, absl::Time now) {
  const std::string ahead_of = name.ahead_of;
  SetAhead(name, "");
  by_use_.erase(name.order);
  name.order = next_use_++;
  by_use_[name.order] = name.listed.plan->name;
  name.listed.facts.used = std::max(name.listed.facts.used, now);
  SetAhead(name, ahead_of);
}

void MemoryTier::SetAhead(Name& name, const std::string& caller) {
  if (const auto found = ahead_.find(name.ahead_of); found != ahead_.end()) {
    found->second.orders.erase(name.order);
    found->second.bytes -= name.listed.cached_bytes;
    if (found->second.orders.empty()) ahead_.erase(found);
  }
  name.ahead_of = caller;
  if (caller.empty()) return;
  Ahead& ahead = ahead_[caller];
  ahead.orders.insert(name.order);
  ahead.bytes += name.listed.cached_bytes;
}

void MemoryTier::Remove(const std::string& name) {
  const auto found = names_.find(name);
  SetAhead(found->second, "");
  const Name& removed = found->second;
  const auto entry = entries_.find(removed.listed.plan->cached->request.fingerprint);
  bytes_ -= removed.own_bytes;
  by_use_.erase(removed.order);
  by_creation_.erase({removed.listed.facts.created, name});
  entry->second.names.erase(name);
  names_.erase(found);
  if (!entry->second.names.empty()) return;
  bytes_ -= entry->second.bytes;
  entries_.erase(entry);
}

const MemoryTier::Name* MemoryTier::AheadToEvict(const std::string& spared) const {
  for (const auto& [caller, ahead] : ahead_) {
    const bool many_names = limits_.max_entries > 0 && static_cast<int64_t>(ahead.orders.size()) >
                                                           limits_.max_entries / kPartsForAhead;
    if (ahead.bytes <= limits_.max_bytes / kPartsForAhead && !many_names) continue;
    for (const uint64_t order : ahead.orders) {
      const Name& name = names_.at(by_use_.at(order));
      if (name.listed.plan->name != spared && !name.kept()) return &name;
    }
  }
  return nullptr;
}

std::pair<const MemoryTier::Name*, EvictionCause> MemoryTier::NextToEvict(
    absl::Time now, const std::string& spared) const {
  const bool many_bytes = bytes_ > limits_.max_bytes;
  const bool many_names =
      limits_.max_entries > 0 && static_cast<int64_t>(names_.size()) > limits_.max_entries;
  if (many_bytes || many_names) {
    const EvictionCause cause = many_bytes ? EvictionCause::kBytes : EvictionCause::kEntries;
    if (const Name* const ahead = AheadToEvict(spared)) return {ahead, cause};
  }
  for (const auto& [order, key] : by_use_) {
    const Name& name = names_.at(key);
    const bool old = now - name.listed.facts.used > limits_.max_age;
    if (!many_bytes && !many_names && !old) return {};  // later names are younger
    if (key == spared || name.kept()) continue;
    const bool used_last = order == by_use_.rbegin()->first;
    if (used_last && limits_.max_bytes > 0 && !many_names && !old) continue;
    return {&name, many_bytes   ? EvictionCause::kBytes
                   : many_names ? EvictionCause::kEntries
                                : EvictionCause::kAge};
  }
  return {};
}

int64_t MemoryTier::pinned_count() const {
  return std::count_if(names_.begin(), names_.end(),
                       [](const auto& entry) { return entry.second.listed.facts.pinned; });
}

std::vector<const MemoryTier::Name*> MemoryTier::NamesAfter(absl::Time created,
                                                            const std::string& name,
                                                            size_t count) const {
  std::vector<const Name*> names;
  for (auto key = by_creation_.upper_bound({created, name});
       key != by_creation_.end() && names.size() < count; ++key) {
    names.push_back(&names_.at(key->second));
  }
  return names;
}

}  // namespace remesh::server
