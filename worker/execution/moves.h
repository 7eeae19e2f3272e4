// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/tape_view.h"
#include "worker/execution/attempt_devices.h"
#include "worker/execution/messages.h"
#include "worker/execution/program.h"
#include "worker/store/buffer_store.h"

namespace remesh::worker {

// A stretch of a program bound to this host's memory.
struct BoundMove {
  int32_t window = 0;
  int32_t tape = 0;
  int64_t lo = 0;
  int64_t hi = 0;
  int from = 0;  // device ordinals
  int to = 0;
  int peer = -1;  // the other host, in the peer table; -1 for moves inside this host
  const TapeView* source = nullptr;  // where this host has the stretch; null when it receives
  const TapeView* target = nullptr;  // where this host puts it; null when it sends
  bool from_origin = false;          // read from the source generation: checked again at the end
  int carries = -1;                  // the move that brought what this one reads
  int origin = 0;  // the first of those it comes from, through this host: the origin's digests are
                   // kept there

  int64_t chunks() const { return ChunksOf(lo, hi); }
};

// Everything that one attempt does on this host, with the memory it does it in.
struct MoveList {
  Program program;
  std::vector<int> local_device;  // by ordinal: its index here; -1 on another host
  std::vector<BoundMove> moves;   // in the program's order
  MessageList messages;           // the same by what travels together
  std::shared_ptr<const MappedShards>
      source;  // null when this host holds nothing of the source generation
  std::shared_ptr<const MappedShards> target;
  std::vector<std::shared_ptr<std::byte>> scratch;  // keeps what is staged
  std::shared_ptr<Scratch> slots;                   // for slices on their way; see Mover
  std::vector<std::shared_ptr<std::byte>> transit;  // by local device, where links are windowed
  std::deque<TapeView> views;                       // stable addresses
};

// Bytes that BindMoves() needs for staging, by local device.
std::vector<int64_t> StagingBytes(const Program& program, const AttemptDevices& devices);

// FAILED_PRECONDITION (PROGRAM_MISMATCH; metadata array, box, device) when the program reads or
// writes what no shard here holds, reads what was not brought in an earlier window, does not fill
// the target's shards, or an array differs from the state's. REQUIRES: `staging` has memory of each
// local device, at least StagingBytes() of it. slice_bytes: see MessageList.
absl::StatusOr<MoveList> BindMoves(Program program, const AttemptDevices& devices,
                                   std::shared_ptr<const MappedShards> source,
                                   std::shared_ptr<const MappedShards> target,
                                   const std::vector<std::byte*>& staging,
                                   int64_t slice_bytes = kSliceBytesMax);

}  // namespace remesh::worker
