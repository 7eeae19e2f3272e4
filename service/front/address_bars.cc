// SPDX-License-Identifier: Apache-2.0
#include "service/front/address_bars.h"

#include <algorithm>

namespace remesh::service {
namespace {

constexpr auto kNoiseIsRemembered = std::chrono::minutes(10);
constexpr auto kOneIncident = std::chrono::seconds(10);

}  // namespace

void AddressBars::Bar(const std::string& address, Time until) {
  Entry& entry = entries_[address];
  entry.until = std::max(entry.until, until);
}

bool AddressBars::IsBarred(const std::string& address, Time now) {
  DropOld(now);
  const auto entry = entries_.find(address);
  return entry != entries_.end() && entry->second.until > now;
}

bool AddressBars::NoteNoise(const std::string& address, Time now) {
  DropOld(now);
  Entry& entry = entries_[address];
  const bool again = entry.noisy_from <= now && now < entry.noisy_until;
  if (entry.noisy_until <= now) entry.noisy_from = now + kOneIncident;
  entry.noisy_until = now + kNoiseIsRemembered;
  return again;
}

void AddressBars::DropOld(Time now) {
  absl::erase_if(entries_, [now](const auto& entry) {
    return entry.second.until <= now && entry.second.noisy_until <= now;
  });
}

}  // namespace remesh::service
