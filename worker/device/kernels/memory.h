// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/lanes.h"

// Loads and stores of one aligned unit. On processors they are relaxed atomics, because other
// threads may write other bits of a word at the same time.
namespace remesh::worker::kernels {

struct alignas(16) Unit16 {
  uint64_t low, high;
};

#ifdef __CUDA_ARCH__

template <typename T>
__device__ T Load(const void* at) {
  return *static_cast<const T*>(at);
}
template <typename T>
__device__ void Store(void* at, T value) {
  *static_cast<T*>(at) = value;
}
inline __device__ void FlipBits(uint32_t* word, uint32_t bits) { atomicXor(word, bits); }
inline __device__ void LowerTo(int64_t* at, int64_t value) {
  atomicMin(reinterpret_cast<long long*>(at), static_cast<long long>(value));
}

#else

template <typename T>
struct Aliasing {
  typedef T Type __attribute__((may_alias));
};
template <typename T>
T Load(const void* at) {
  return __atomic_load_n(static_cast<const typename Aliasing<T>::Type*>(at), __ATOMIC_RELAXED);
}
template <typename T>
void Store(void* at, T value) {
  __atomic_store_n(static_cast<typename Aliasing<T>::Type*>(at), value, __ATOMIC_RELAXED);
}
template <>
inline Unit16 Load<Unit16>(const void* at) {
  return {Load<uint64_t>(at), Load<uint64_t>(static_cast<const char*>(at) + 8)};
}
template <>
inline void Store<Unit16>(void* at, Unit16 value) {
  Store(at, value.low);
  Store(static_cast<char*>(at) + 8, value.high);
}
inline void FlipBits(uint32_t* word, uint32_t bits) {
  __atomic_fetch_xor(reinterpret_cast<Aliasing<uint32_t>::Type*>(word), bits, __ATOMIC_RELAXED);
}
inline void LowerTo(int64_t* at, int64_t value) {
  int64_t before = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < before && !__atomic_compare_exchange_n(at, &before, value, true, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED)) {
  }
}

#endif

}  // namespace remesh::worker::kernels
