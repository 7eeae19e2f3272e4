// SPDX-License-Identifier: Apache-2.0
#include "planner/canonical/fingerprint.h"

#include <xxhash.h>

#include <array>
#include <bit>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace remesh::planner {
namespace {

// The finalizer of splitmix64: every bit of the input reaches every bit of the output.
uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

std::string Hash128::Hex() const { return absl::StrFormat("%016x%016x", high, low); }

Hash128 Mixed(const Hash128& state, uint64_t value) {
  const uint64_t high = Mix64(state.high * 0x9e3779b97f4a7c15u + value);
  return {high, Mix64(state.low + 0xd1b54a32d192ed03u * (value + 1) + (high << 1))};
}

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  std::array<uint64_t, 512> words;  // buffered: a call of XXH3 for each word would cost more
  size_t count = 0;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  REMESH_CHECK(state_->xxh != nullptr);
  XXH3_128bits_reset(state_->xxh);
}

Hasher::~Hasher() { XXH3_freeState(state_->xxh); }

void Hasher::Flush() {
  XXH3_128bits_update(state_->xxh, state_->words.data(), state_->count * sizeof(uint64_t));
  state_->count = 0;
}

Hasher& Hasher::Add(int64_t value) {
  if (state_->count == state_->words.size()) Flush();
  state_->words[state_->count++] = static_cast<uint64_t>(value);
  return *this;
}

Hasher& Hasher::AddDouble(double value) { return Add(std::bit_cast<int64_t>(value)); }

Hasher& Hasher::AddText(std::string_view text) {
  Add(static_cast<int64_t>(text.size()));
  Flush();
  XXH3_128bits_update(state_->xxh, text.data(), text.size());
  return *this;
}

Hasher& Hasher::AddHash(const Hash128& hash) {
  Add(static_cast<int64_t>(hash.high));
  return Add(static_cast<int64_t>(hash.low));
}

Hash128 Hasher::Digest() const {
  XXH3_128bits_update(state_->xxh, state_->words.data(), state_->count * sizeof(uint64_t));
  state_->count = 0;
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

void AddUnlessDefault(const MessageCosts& costs, Hasher& hasher) {
  if (costs == MessageCosts{}) return;
  hasher.Add(-1).AddDouble(costs.nic_message_seconds).AddDouble(costs.fabric_message_seconds);
  hasher.AddDouble(costs.post_seconds).Add(costs.posting_threads);
}

Hash128 HashWithoutDevices(const Layout& layout) {
  Hasher hasher;
  hasher.Add(static_cast<int64_t>(layout.shape.size()));
  for (int64_t extent : layout.shape) hasher.Add(extent);
  hasher.AddText(layout.subgroup_kind);
  for (size_t t = 0; t < layout.tiles.size(); ++t) {
    const Tile& tile = layout.tiles[t];
    if (tile.boxes.empty()) continue;
    hasher.Add(tile.subgroup).Add(static_cast<int64_t>(layout.PositionsOf(t).size()));
    hasher.Add(static_cast<int64_t>(tile.boxes.size()));
    for (const Box& box : tile.boxes) {
      for (const Interval& i : box.dims) hasher.Add(i.lo).Add(i.hi);
    }
  }
  return hasher.Digest();
}

}  // namespace remesh::planner
