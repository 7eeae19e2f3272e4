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

// The memory of a slice on its way.
struct SlicePlace {
  std::span<std::byte> bytes;      // as its link reaches them
  std::byte* on_device = nullptr;  // as its device does
};

// The memory in which slices to and from other hosts lie on their way. A message that travels whole
// has a place of its own in its device's area (MoveList::transit). Other packed slices lie in
// memory of the host (MoveList::slots). If all of them fit within the limits, each has a place of
// its own there too, so that the host never needs more than the plan says. Otherwise a slice takes
// the next free one of equal slots. Not thread-safe.
class SlicePlaces {
 public:
  // Bytes that MoveList::slots must have.
  static int64_t HostBytesFor(const MoveList& list, const StreamLimits& limits, bool gathers);

  // `list` must outlive this object. REQUIRES: list.transit and list.slots have the memory that
  // slices need; slots_on has an address for each local device.
  SlicePlaces(const MoveList* list, const StreamLimits& limits, bool gathers);

  // The memory of a slice; nullopt while there is no room, which a whole message always has.
  // REQUIRES: the slice must be packed.
  std::optional<SlicePlace> Take(int slice);
  // Frees the memory that the slice took, if any.
  void Give(int slice);

 private:
  std::span<std::byte> HostBytes() const;

  const MoveList* const list_;
  const TransitLayout transit_;  // of whole messages
  const TransitLayout packed_;   // of other slices
  const SlotShape slots_;
  const bool own_places_;  // of other slices: packed_ says where
  SlotPool pool_;
  std::vector<int> slot_of_;  // by slice; -1: none
};

}  // namespace remesh::worker
