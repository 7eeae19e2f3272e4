// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "planner/atoms/atoms.h"
#include "planner/moves/moves.h"
#include "planner/moves/striping.h"
#include "planner/network/network.h"
#include "planner/routing/trees.h"
#include "planner/values/budget.h"
#include "planner/values/chunked_list.h"

namespace remesh::planner {

// The devices of a sorted group that belong to `host`.
absl::Span<const int32_t> InHost(const Group& group, int32_t host, const Network& network);

// Whether a sorted group has `device`.
bool Holds(absl::Span<const int32_t> sorted, int32_t device);

// Makes the moves of segments, one segment after another.
//
// Where a host holds the segment, its needers keep it or copy it from holders beside them (hop 0),
// and may pass it on themselves one hop later. What enters a host arrives in stripes, over the NICs
// that Striping assigns, on a device of that NIC that needs it (if there is none, on one that
// stages it). The other needers copy it one hop later. A relay sends a stripe on from the device
// where it arrived if the same NIC has egress to spare, else from another needer, else by way of
// staging.
//
// Copies inside a host leave the one device that has a stripe, over its fabric, once for each
// needer. Where `crowded` says that this is too much for the devices of a host, a stripe that would
// burden its device more than others is scattered first: each needer gets a part of its own and
// passes it on to the others one hop later, so that no device sends much more than one copy. The
// steps share the current segment as members.
class SegmentMover {
 public:
  // crowded[host]; empty: no host is crowded. `segments` are those of all tapes; later calls name
  // them by index. `expected`: about how many moves there will be.
  SegmentMover(const Atoms& atoms, const std::vector<Segment>& segments, const Network& network,
               Striping& striping, std::vector<bool> crowded, size_t expected = 0);

  // Tells the striping how much each NIC mask has to carry for this segment.
  void AddDemands(int32_t segment, const RouteEdges& edges);

  // Adds the moves of one segment. REQUIRES: Striping::Solve() after AddDemands() of all segments.
  void Add(int32_t segment, const RouteEdges* edges);

  // All moves so far. The result must not be used once the budget is spent.
  std::vector<Move> Take(Budget& budget = Budget::Unlimited()) && {
    return std::move(moves_).Take(budget);
  }

 private:
  // The range [lo, hi) of the segment, which `device` has from hop `ready` on.
  struct Stripe {
    int64_t lo = 0;
    int64_t hi = 0;
    int32_t device = 0;
    Space space = Space::kTarget;
    int ready = 0;
    int spread = 1;  // hops until all needers of the host have it
  };
  using Stripes = absl::InlinedVector<Stripe, 2>;
  using Needers = absl::InlinedVector<int32_t, 8>;
  // A range that is to use a NIC.
  struct Lane {
    int64_t lo = 0;
    int64_t hi = 0;
    int32_t nic = 0;
  };

  // Holders (null: they do not matter), needers, host.
  using MaskKey = std::tuple<const Group*, const Group*, int32_t>;

  void Begin(int32_t segment);
  void MoveInside();
  void MoveNear(absl::Span<const int32_t> near, int32_t host, size_t i);
  void Follow(const RouteEdge& edge);
  bool IsDirect() const;
  int32_t OutMask(int32_t host);
  int32_t InMask(int32_t host, absl::Span<const int32_t> needers);
  int32_t MaskOf(const MaskKey& key, absl::Span<const int32_t> some,
                 absl::Span<const int32_t> others);
  void FindIngressLanes(int32_t host, absl::Span<const int32_t> needers);
  void FindEgressLanes(int32_t host);
  void Deal(Direction direction, int32_t mask, int64_t lo, int64_t hi, std::vector<Lane>& lanes);
  Stripe Sender(int32_t host, const Lane& lane);
  Stripe SenderAtHolder(int32_t host, const Lane& lane);
  Stripe SenderAtRelay(const Lane& lane, const Stripes& arrived);
  Stripe Staged(const Stripe& origin, int32_t device);
  int32_t DeviceOnNic(absl::Span<const int32_t> devices, int32_t nic) const;
  bool IsCrowded(int32_t host) const { return !crowded_.empty() && crowded_[host]; }
  int64_t PartOf(int64_t lo, int64_t hi, int64_t k, int64_t n) const;
  void SpreadFromHolders(int32_t host, absl::Span<const int32_t> near);
  Needers InNeed(int32_t host, absl::Span<const int32_t> needers) const;
  void Arrive(int32_t host, absl::Span<const int32_t> all, Stripes arrived);
  void Copy(const Stripe& stripe, absl::Span<const int32_t> needers);
  Stripes Relieve(int32_t host, const Stripes& arrived, const Needers& needers);
  static int64_t FairShare(absl::Span<const int64_t> sends, int32_t first, const Stripes& arrived,
                           const Needers& needers);
  bool Sends(int32_t host) const;
  void Scatter(const Stripe& stripe, Needers needers, Stripes& parts);
  void AddMove(int64_t lo, int64_t hi, const Stripe& from, int32_t to, Space to_space);

  const Atoms& atoms_;
  const std::vector<Segment>& segments_;
  const Network& network_;
  Striping& striping_;
  const std::vector<bool> crowded_;
  ChunkedList<Move> moves_;
  absl::flat_hash_map<MaskKey, int32_t> masks_;  // at most kMasksKept
  std::vector<int64_t> sent_;  // device -> bits over its fabric so far, in crowded hosts
  // Of the current segment.
  int32_t segment_ = 0;
  int64_t size_ = 0;
  int64_t unit_ = 1;
  const Group* holders_ = nullptr;
  const Group* needers_ = nullptr;
  const RouteEdges* edges_ = nullptr;
  std::vector<int32_t> arrival_of_host_;  // host -> index into arrivals_, -1
  std::vector<std::pair<int32_t, Stripes>> arrivals_;
  std::vector<Stripe> staged_;
  std::vector<Lane> in_;  // of the current edge
  std::vector<Lane> out_;
};

}  // namespace remesh::planner
