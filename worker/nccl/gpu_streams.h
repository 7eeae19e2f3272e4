// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/nccl/nccl_types.h"

namespace remesh::worker {

// What the NCCL link needs of a host's devices: for each device, by local index, one stream that
// only NCCL puts work on. It serves one group at a time. No call blocks. Two threads of the link
// call it, never at the same time, except for an abort that ends a call to NCCL which does not
// return.
class GpuStreams {
 public:
  using Event = uint64_t;

  virtual ~GpuStreams() = default;

  // Makes `device` the one that NCCL finds current on the calling thread.
  virtual absl::Status MakeCurrent(int device) = 0;
  // The stream, as the cudaStream_t that NCCL takes.
  virtual nccl::Stream Handle(int device) = 0;
  // Records an event behind all that is on the stream now.
  virtual absl::StatusOr<Event> Record(int device) = 0;
  // Whether the stream has passed the event, which is then forgotten. Events must be asked for in
  // the order in which they were recorded. Errors: the device's, after which nothing on it runs.
  virtual absl::StatusOr<bool> Passed(int device, Event event) = 0;
};

}  // namespace remesh::worker
