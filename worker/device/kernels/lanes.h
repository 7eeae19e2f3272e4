// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The code of this folder runs on GPUs, one warp at a time, and on processors, where one thread
// plays all lanes in turn. It consists of plain functions over plain tables, without a library, so
// that tests on any machine run the very code that a GPU runs.
#ifdef __CUDACC__
#define REMESH_HD __host__ __device__
#define REMESH_UNROLL _Pragma("unroll")
#define REMESH_NO_UNROLL _Pragma("unroll 1")
#else
#define REMESH_HD
#define REMESH_UNROLL
#define REMESH_NO_UNROLL
#endif

namespace remesh::worker::kernels {

inline constexpr int kLanes = 32;

// Runs a warp's code on one thread. The code is written for all lanes at once: PerLane holds one
// value for each lane, and ForEach() runs a step on each lane, after which each lane sees the
// writes of the others.
struct LanesInTurn {
  template <typename T>
  struct PerLane {
    T values[kLanes];
    T& operator[](int lane) { return values[lane]; }
  };

  template <typename Step>
  static void ForEach(Step step) {
    for (int lane = 0; lane < kLanes; ++lane) step(lane);
  }

  // Adds to each lane's value the value of the lane whose number differs by `mask`.
  static void AddAcross(PerLane<uint64_t>& values, int mask) {
    const PerLane<uint64_t> before = ExchangedAcross(values, mask);
    for (int lane = 0; lane < kLanes; ++lane) values.values[lane] += before.values[lane];
  }
  static PerLane<uint64_t> ExchangedAcross(const PerLane<uint64_t>& values, int mask) {
    PerLane<uint64_t> others;
    for (int lane = 0; lane < kLanes; ++lane) others.values[lane] = values.values[lane ^ mask];
    return others;
  }
  // A value that all lanes share.
  static uint64_t Common(const PerLane<uint64_t>& values) { return values.values[0]; }
};

#ifdef __CUDACC__
struct LanesOfWarp {
  template <typename T>
  struct PerLane {
    T value;
    __device__ T& operator[](int) { return value; }
  };

  template <typename Step>
  static __device__ void ForEach(Step step) {
    step(static_cast<int>(threadIdx.x % kLanes));
    __syncwarp();
  }
  static __device__ void AddAcross(PerLane<uint64_t>& values, int mask) {
    values.value += ExchangedAcross(values, mask).value;
  }
  static __device__ PerLane<uint64_t> ExchangedAcross(const PerLane<uint64_t>& values, int mask) {
    return {__shfl_xor_sync(~0u, static_cast<unsigned long long>(values.value), mask)};
  }
  static __device__ uint64_t Common(const PerLane<uint64_t>& values) { return values.value; }
};
#endif

}  // namespace remesh::worker::kernels
