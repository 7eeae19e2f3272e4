// SPDX-License-Identifier: Apache-2.0
#include "worker/device/copy_past_cache.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace remesh::worker {

#ifdef __SSE2__

void CopyPastCache(std::byte* target, const std::byte* source, size_t bytes) {
  constexpr size_t kLine = 64;
  const size_t to_line = -reinterpret_cast<uintptr_t>(target) % kLine;
  const size_t head = std::min(to_line, bytes);
  std::memcpy(target, source, head);
  size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {  // whole lines: partial lines are slow
    const auto* from = reinterpret_cast<const __m128i*>(source + at);
    auto* to = reinterpret_cast<__m128i*>(target + at);
    const __m128i words[] = {_mm_loadu_si128(from), _mm_loadu_si128(from + 1),
                             _mm_loadu_si128(from + 2), _mm_loadu_si128(from + 3)};
    for (int i = 0; i < 4; ++i) _mm_stream_si128(to + i, words[i]);
  }
  std::memcpy(target + at, source + at, bytes - at);
}

void FenceCopies() { _mm_sfence(); }

#else

void CopyPastCache(std::byte* target, const std::byte* source, size_t bytes) {
  std::memcpy(target, source, bytes);
}

void FenceCopies() {}

#endif

}  // namespace remesh::worker
