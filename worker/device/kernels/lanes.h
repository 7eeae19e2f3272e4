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
#define REMESH_NO_INLINE __noinline__
#else
#define REMESH_HD
#define REMESH_UNROLL
#define REMESH_NO_UNROLL
#define REMESH_NO_INLINE
#endif

namespace remesh::worker::kernels {

inline constexpr int kLanes = 32;

// Runs a warp's code on one thread. The code is written for all lanes at once: PerLane holds one
// value for each lane, and ForEach() runs a step on each lane, after which each lane sees the
// writes of the others. ForEachAlone() is for steps on a lane's own values: no lane waits.
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
  template <typename Step>
  static void ForEachAlone(Step step) {
    ForEach(step);
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
  // Gives each lane the value of the lane that `origin` names for it.
  template <typename Origin>
  static PerLane<uint64_t> From(const PerLane<uint64_t>& values, Origin origin) {
    PerLane<uint64_t> taken;
    for (int lane = 0; lane < kLanes; ++lane) taken.values[lane] = values.values[origin(lane)];
    return taken;
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
    ForEachAlone(step);
    __syncwarp();
  }
  template <typename Step>
  static __device__ void ForEachAlone(Step step) {
    step(Lane());
  }
  static __device__ void AddAcross(PerLane<uint64_t>& values, int mask) {
    values.value += ExchangedAcross(values, mask).value;
  }
  static __device__ PerLane<uint64_t> ExchangedAcross(const PerLane<uint64_t>& values, int mask) {
    return {__shfl_xor_sync(~0u, static_cast<unsigned long long>(values.value), mask)};
  }
  template <typename Origin>
  static __device__ PerLane<uint64_t> From(const PerLane<uint64_t>& values, Origin origin) {
    return {__shfl_sync(~0u, static_cast<unsigned long long>(values.value), origin(Lane()))};
  }
  static __device__ uint64_t Common(const PerLane<uint64_t>& values) { return values.value; }

 private:
  static __device__ int Lane() { return static_cast<int>(threadIdx.x % kLanes); }
};
#endif

}  // namespace remesh::worker::kernels
