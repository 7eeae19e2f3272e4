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

// Limits on what may be in flight at once on links that stream.
struct StreamLimits {
  int slices_in_flight = 32;
  int64_t staging_bytes = int64_t{64} << 20;  // for packed slices
  int64_t run_bytes = kDirectRunBytes;        // see DirectRuns()
};

// The memory in which slices to and from other hosts lie on their way. On a windowed link each
// slice has a place of its own in its device's area (MoveList::transit). On a link that streams,
// packed slices lie in memory of the host (MoveList::slots). If all of them fit within the limits,
// each has a place of its own there too, so that the host never needs more than the plan says.
// Otherwise a slice takes the next free one of equal slots. Not thread-safe.
class SlicePlaces {
 public:
  // Bytes that MoveList::slots must have on a link that streams and that gathers, or not.
  static int64_t HostBytesFor(const MoveList& list, const StreamLimits& limits, bool gathers);

  // `list` must outlive this object. REQUIRES: list.transit (windowed links) or list.slots (others)
  // has the memory that slices need.
  SlicePlaces(const MoveList* list, const Transport& link, const StreamLimits& limits);

  // The memory of a slice; nullopt while there is no room. REQUIRES: the link is windowed, or the
  // slice must be packed.
  std::optional<std::span<std::byte>> Take(int slice);
  // Frees the memory that the slice took, if any.
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
