// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/nccl/nccl_types.h"

namespace remesh::worker {

// What the NCCL link needs of a host's devices: for each, by its local index, one stream that only
// NCCL puts work on. It serves one group at a time. No call blocks. Two threads of the link call it,
// never at once but for an abort that ends a call of NCCL's which does not return.
class GpuStreams {
 public:
  using Event = uint64_t;

  virtual ~GpuStreams() = default;

  // Makes `device` the one that NCCL finds current on the calling thread.
  virtual absl::Status MakeCurrent(int device) = 0;
  // What NCCL takes for a cudaStream_t.
  virtual nccl::Stream Handle(int device) = 0;
  // Marks what is on the stream now.
  virtual absl::StatusOr<Event> Record(int device) = 0;
  // Whether the stream is past the event, which is forgotten if it is. Events are asked for in the
  // order in which they were recorded. Errors: the device's, after which nothing on it runs.
  virtual absl::StatusOr<bool> Passed(int device, Event event) = 0;
};

}  // namespace remesh::worker
