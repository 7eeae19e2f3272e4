// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "planner/network/network.h"
#include "planner/values/budget.h"
#include "planner/values/rational.h"

namespace remesh::planner {

enum class Direction : int8_t { kOut = 0, kIn = 1 };

// How demands are dealt out to NICs where several may carry them. In sequence to as few as possible:
// mostly this makes the fewest pairs of devices, but demands of a host that are alike all end a NIC's
// share at one place, and the device that sends that place sends it to NICs on both sides of the end,
// once for each demand. Staggered, every NIC of a demand carries as much of it as others, and alike
// demands that enter a host end their shares at different places. That makes more pairs in all, but
// no device has many more of them than others.
enum class Dealing : int8_t { kInSequence, kStaggered };

// Shares a host's traffic among its NICs, separately for each direction. Traffic with the same mask
// forms one demand; its mask is the set of NICs that may carry it without a copy inside the host
// (NICs of devices that hold it, or need it). A transportation problem of masks into NICs of
// capacity t * c decides which NIC carries how much; NICs of devices that hold the traffic come
// first. Where the masks alone would overload a NIC beyond t, the excess goes to any NIC of the
// host, by way of staging on a device there. A demand is then dealt out in sequence, so that hardly
// any transfer is split between NICs.
class Striping {
 public:
  explicit Striping(const Network& network, Dealing dealing = Dealing::kInSequence);

  // The mask of a set of devices of one host. Uses the NICs of `some` first, because `others` get
  // the bytes one hop later. REQUIRES: not empty, all carry.
  int32_t MaskOf(absl::Span<const int32_t> some, absl::Span<const int32_t> others = {});

  // First, add all demands.
  void AddDemand(Direction direction, int32_t mask, int64_t bits);
  // Then assign NICs, none busier than t if possible.
  void Solve(const Rational& t, Budget& budget = Budget::Unlimited());

  // Then deal out each demand. Takes up to `bits` of what the mask's next NIC (or NIC `nic`) still
  // has to carry, at least 1. Cuts are multiples of `unit`; the error is carried to the next.
  // Returns the bits taken, 0 when `nic` has nothing left.
  struct Taken {
    int32_t nic = 0;
    int64_t bits = 0;
  };
  Taken Take(Direction direction, int32_t mask, int64_t bits, int64_t unit);
  int64_t TakeFrom(Direction direction, int32_t mask, int32_t nic, int64_t bits, int64_t unit);

 private:
  struct Share {
    int32_t nic = 0;
    int64_t left = 0;
  };
  struct Demand {
    int64_t bits = 0;
    std::vector<Share> shares;
    size_t next = 0;
  };
  Demand& DemandOf(Direction direction, int32_t mask);
  void SolveHost(int32_t host, Direction direction, const Rational& t);
  static void Stagger(const std::vector<Demand*>& demands);
  static void Turn(std::vector<Share>& shares, int64_t bits);
  // NICs of a mask, the preferred ones first.
  struct Mask {
    std::vector<int32_t> nics;
    int32_t preferred = 0;
    friend bool operator==(const Mask&, const Mask&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Mask& mask) {
      return H::combine(std::move(h), mask.nics, mask.preferred);
    }
  };
  int32_t Intern(Mask mask);

  const Network& network_;
  const Dealing dealing_;
  std::vector<Mask> masks_;  // mask i < number of NICs: NIC i alone
  absl::flat_hash_map<Mask, int32_t> mask_of_;
  std::vector<std::vector<int32_t>> masks_of_host_;
  std::vector<Demand> demands_;  // 2 * mask + direction
};

}  // namespace remesh::planner
