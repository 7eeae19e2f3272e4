// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/execution/direct_runs.h"
#include "worker/execution/moves.h"
#include "worker/execution/slot_pool.h"
#include "worker/execution/transit.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// How much may be under way at once on links that stream.
struct StreamLimits {
  int slices_in_flight = 32;
  int64_t staging_bytes = int64_t{64} << 20;  // for packed slices
  int64_t run_bytes = kDirectRunBytes;        // see DirectRuns()
};

// Where slices to and from other hosts lie on their way. On windowed links each has a place of its
// own in its device's area (MoveList::transit). On links that stream those that are packed lie in
// memory of the host (MoveList::slots): in places of their own there too where these take no more
// than the limits let them, so that the host never needs more than the plan says; otherwise in the
// next free one of equal slots. Not thread-safe.
class SlicePlaces {
 public:
  // What MoveList::slots must have where the link streams, and gathers or does not.
  static int64_t HostBytesFor(const MoveList& list, const StreamLimits& limits, bool gathers);

  // `list` must outlive it. REQUIRES: list.transit, or list.slots, of what they must have.
  SlicePlaces(const MoveList* list, const Transport& link, const StreamLimits& limits);

  // The bytes of a slice; nullopt while there is no room. REQUIRES: it has to be packed.
  std::optional<std::span<std::byte>> Take(int slice);
  // What was taken for the slice, if anything, is free.
  void Give(int slice);

 private:
  std::span<std::byte> HostBytes() const;

  const MoveList* const list_;
  const bool windowed_;
  const TransitLayout layout_;
  const SlotShape slots_;
  const bool own_places_;
  SlotPool pool_;
  std::vector<int> slot_of_;  // by slice; -1: none
};

}  // namespace remesh::worker
