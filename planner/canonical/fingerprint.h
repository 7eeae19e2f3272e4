// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "planner/values/layout.h"
#include "planner/values/topology.h"

namespace remesh::planner {

// A 128-bit hash (XXH3): equal on every machine and in every release of the same format number.
struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  std::string Hex() const;  // 32 digits
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Hash128& h) {
    return H::combine(std::move(state), h.high, h.low);
  }
};

// One step of a running hash of a few numbers. Cheap; for labels of devices.
Hash128 Mixed(const Hash128& state, uint64_t value);

// Hashes a sequence of values. Any two different sequences of calls hash different bytes, because
// lengths go before variable parts.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& Add(int64_t value);
  Hasher& AddDouble(double value);
  Hasher& AddText(std::string_view text);
  Hasher& AddHash(const Hash128& hash);
  Hash128 Digest() const;

 private:
  void Flush();
  struct State;
  std::unique_ptr<State> state_;
};

// Adds what messages cost, unless that is the default: requests from before such costs existed keep
// their hashes. What is added next must not begin with -1.
void AddUnlessDefault(const MessageCosts& costs, Hasher& hasher);

// The hash of a layout, independent of its device list: shape, subgroup kind, and for each tile
// that holds elements its subgroup, its boxes and the number of positions that hold it.
Hash128 HashWithoutDevices(const Layout& layout);

}  // namespace remesh::planner
