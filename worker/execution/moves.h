// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/shard_view.h"
#include "worker/execution/attempt_devices.h"
#include "worker/execution/program.h"
#include "worker/store/buffer_store.h"

namespace remesh {

// An operation of a program bound to this host's memory.
struct BoundMove {
  int32_t window = 0;
  int32_t array = 0;
  Box box;
  int from = 0;  // device ordinals
  int to = 0;
  int peer = -1;  // the other host, in the peer table; -1 for moves inside this host
  const ShardView* source = nullptr;  // where this host has the box; null when it receives
  const ShardView* target = nullptr;  // where this host puts it; null when it sends
  bool from_origin = false;           // read from the source generation: verified again at the end
  std::vector<int> after;             // moves that bring what this one reads
  int carries = -1;  // the one of them that brings exactly this box, and its digests with it

  int bits_per_element() const { return (source != nullptr ? source : target)->bits_per_element; }
};

// Everything that one attempt does on this host, with the memory it does it in.
struct MoveList {
  std::vector<Program::Array> arrays;
  int32_t windows = 0;
  std::vector<BoundMove> moves;  // in the program's order
  std::shared_ptr<const MappedShards>
      source;  // null when this host holds nothing of the source generation
  std::shared_ptr<const MappedShards> target;
  std::shared_ptr<Scratch> scratch;  // null when nothing is staged
  std::shared_ptr<Scratch> slots;    // for packed pieces on their way; see Mover
  std::deque<ShardView> staging;     // stable addresses
};

// Bytes that BindMoves() needs for staging on this host.
int64_t StagingBytes(const Program& program, const AttemptDevices& devices);

// FAILED_PRECONDITION (PROGRAM_MISMATCH; metadata array, box, device) when the program reads or
// writes a box that no shard here holds, reads what was never brought, passes on what comes in the
// same window, or an array differs from the state's. REQUIRES: scratch of at least StagingBytes(),
// null for 0.
absl::StatusOr<MoveList> BindMoves(Program program, const AttemptDevices& devices,
                                   std::shared_ptr<const MappedShards> source,
                                   std::shared_ptr<const MappedShards> target,
                                   std::shared_ptr<Scratch> scratch);

}  // namespace remesh
