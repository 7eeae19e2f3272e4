// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/nccl/gpu_streams.h"
#include "worker/nccl/nccl_api.h"

namespace remesh::worker {

// One send or receive of a window, between a rank of this host and any other.
struct NcclEntry {
  bool send = false;
  int local = 0;  // index of our rank among NcclComms' locals
  int peer = 0;   // rank
  std::byte* address = nullptr;
  size_t bytes = 0;
};

// A rank of this host.
struct NcclLocal {
  int rank = 0;
  int device = 0;  // local index
};

// Limits on what NCCL takes of a device; 0: NCCL's own choice.
struct NcclLimits {
  int max_ctas = 0;
  int channels_per_net_peer =
      0;  // more channels are quicker among few hosts, but hang in some versions
};

// The communicators of this host's ranks, all non-blocking: a call only starts something, which is
// over once Ready() is true. Until then nothing else may be started. One thread calls everything
// but AbortAll().
class NcclComms {
 public:
  // `api` and `streams` must outlive this object.
  NcclComms(const NcclApi* api, GpuStreams* streams, const NcclLimits& limits, int ranks,
            std::vector<NcclLocal> locals);
  // REQUIRES: AbortAll() has returned, or Init() was never called.
  ~NcclComms();

  const std::vector<NcclLocal>& locals() const { return locals_; }

  // Starts to initialise all ranks of this host, in a group of their own.
  absl::Status Init(std::span<const nccl::UniqueId> ids);
  // Starts a window: one group over all ranks with entries. Its kernels are on the streams once
  // Ready() is true, and not before.
  absl::Status Post(std::span<const NcclEntry> entries);
  // Whether nothing is being started any more. Errors: NCCL_FAILED, also if something that was
  // started long ago has failed.
  absl::StatusOr<bool> Ready();

  // Ends everything that runs and frees all communicators, as NCCL frees none before the last is
  // aborted. Blocks, possibly forever. Finalize and Destroy are never called: they wait for all
  // ranks of the world, some of which may have aborted. May be called once, from any thread;
  // nothing else may be called afterwards. Must not be called during another call, unless that call
  // does not return.
  void AbortAll();

 private:
  const NcclApi* const api_;
  GpuStreams* const streams_;
  const NcclLimits limits_;
  const int ranks_;
  const std::vector<NcclLocal> locals_;
  std::vector<nccl::Comm*> comms_;  // of locals_; null until initialised
};

}  // namespace remesh::worker
