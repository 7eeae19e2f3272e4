// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <climits>
#include <cstddef>

// The part of NCCL's C interface that remesh needs, declared here, so that building needs nothing
// of NCCL. Values and layouts are those of nccl.h 2.28.9, which only appends to those of 2.19: the
// library reads as much of a Config as it knows.
namespace remesh::worker::nccl {

enum class Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

struct Comm;           // ncclComm_t points to it
using Stream = void*;  // cudaStream_t

struct UniqueId {
  char bytes[128];
};

inline constexpr int kUint8 = 1;  // the only ncclDataType_t in use: bytes
inline constexpr int kUndefined = INT_MIN;

// Laid out as in the library.
struct Config {
  size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 22809;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_ctas = kUndefined;
  int channels_per_net_peer = kUndefined;
  int nvlink_centric_sched = kUndefined;
};
static_assert(sizeof(Config) == 80 && offsetof(Config, net_name) == 32 &&
              offsetof(Config, comm_name) == 48);

}  // namespace remesh::worker::nccl
