// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace remesh::worker::fake_nccl {

// How NCCL 2.28 cuts the sends and receives of one rank in one group into kernels
// (scheduleP2pTasksToPlan in src/enqueue.cc). Every peer has a round, by which both ends know it.
// Round by round, one send and one receive of it join a batch on each channel of the round. A
// channel works on its batches one after another, and on all of a batch at once. A batch holds no
// round twice. When a kernel has no room for the batches of a round, the next kernel begins, again
// with the first round that has something left.
struct KernelLimits {
  int batches = 254;         // of a kernel: 16 bytes each in arguments of 4 KiB
  int rounds_of_batch = 8;   // each a send, a receive, or both
  int channels = 32;         // of a rank
  int channels_of_peer = 2;  // of them that share the bytes of one operation
};

struct KernelOperation {
  bool send = false;
  int peer = 0;
};

// The operations (indices) of one kernel: by channel, then by batch. Those of several channels are
// in each of them.
struct KernelPlan {
  std::vector<std::vector<std::vector<int>>> channels;
};

// Of rank `rank` of `ranks`. An operation waits for those that were given before it with the same
// peer and direction. REQUIRES: no peer is the rank itself.
std::vector<KernelPlan> CutIntoKernels(int rank, int ranks,
                                       const std::vector<KernelOperation>& operations,
                                       const KernelLimits& limits);

}  // namespace remesh::worker::fake_nccl
