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
  bool from_origin = false;          // read from the source generation; Verify() hashes it again
  int carries = -1;                  // the move that brought what this one reads; -1: none
  // The first move of the chain that `carries` forms on this host; the origin's digests are kept
  // there.
  int origin = 0;

  int64_t chunks() const { return ChunksOf(lo, hi); }
};

// Everything that one attempt does on this host, and the memory that it uses.
struct MoveList {
  Program program;
  std::vector<int> local_device;  // by ordinal: index on this host; -1: on another host
  std::vector<BoundMove> moves;   // in the program's order
  MessageList messages;           // the moves, grouped into messages
  std::shared_ptr<const MappedShards>
      source;  // null when this host holds nothing of the source generation
  std::shared_ptr<const MappedShards> target;
  std::vector<std::shared_ptr<std::byte>> scratch;  // owns the staging memory
  // Memory for slices on their way (SlicePlaces): of the devices, for messages that travel whole,
  // and of the host, for the slices of others.
  std::vector<std::shared_ptr<std::byte>> transit;  // by local device
  std::shared_ptr<Scratch> slots;
  std::vector<std::shared_ptr<std::byte>> slots_on;  // where each local device reaches `slots`
  std::deque<TapeView> views;                        // a deque keeps their addresses stable
  bool in_host_memory = true;  // what `views` name: links that stream reach it without packing
};

// Bytes of staging that BindMoves() needs, by local device.
std::vector<int64_t> StagingBytes(const Program& program, const AttemptDevices& devices);

// Binds a program to this host's shards and staging. FAILED_PRECONDITION (PROGRAM_MISMATCH;
// metadata array, box, device) if the program reads or writes a box that no shard here holds, reads
// what no earlier window brought, does not fill the target's shards, or has an array that differs
// from the state's. REQUIRES: `staging` has at least StagingBytes() for each local device.
// whole: see MessageList.
absl::StatusOr<MoveList> BindMoves(Program program, const AttemptDevices& devices,
                                   std::shared_ptr<const MappedShards> source,
                                   std::shared_ptr<const MappedShards> target,
                                   const std::vector<std::byte*>& staging,
                                   const WholeMessages& whole = {});

}  // namespace remesh::worker
