// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <cstdint>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace remesh {

void AskForHugePages(const void* begin, size_t bytes) {
#ifdef __linux__
  constexpr uintptr_t kHuge = uintptr_t{2} << 20;
  // The C library may serve smaller requests from memory that it keeps and shares with others.
  if (bytes < 4 * kHuge) return;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + kHuge - 1) / kHuge * kHuge;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(begin) + bytes) / kHuge * kHuge;
  (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);  // a hint
#endif
}

}  // namespace remesh
