// SPDX-License-Identifier: Apache-2.0
#include "server/planning/heap_meter.h"

#include <cstdlib>
#include <new>

#include "base/sanitized.h"

#if defined(__GLIBC__) && !REMESH_SANITIZED
#define REMESH_METERS_HEAP 1
#include <malloc.h>
#endif

namespace remesh::server {
namespace {

thread_local constinit int64_t held = 0;

}  // namespace

int64_t HeapBytesOfThread() { return held; }

}  // namespace remesh::server

#ifdef REMESH_METERS_HEAP

// Counts planning's memory: standard containers allocate it, and all of it goes through these two
// operators, which the array and sized forms call too. Over-aligned types do not, and are not
// counted.
void* operator new(std::size_t size) {
  while (true) {
    if (void* const block = std::malloc(size == 0 ? 1 : size)) {
      remesh::server::held += static_cast<int64_t>(malloc_usable_size(block));
      return block;
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) std::abort();
    handler();
  }
}

void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  remesh::server::held -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}

void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

#endif
