// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/testing/host_stream.h"

#include <sys/mman.h>

#include "base/check.h"

namespace remesh::worker {
namespace {

std::byte* Reserve(size_t bytes) {
  void* reserved =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REMESH_CHECK(reserved != MAP_FAILED);
  return static_cast<std::byte*>(reserved);
}

}  // namespace

HostStream::HostStream(size_t memory_bytes)
    : host_(memory_bytes),
      reserved_(Reserve(memory_bytes)),
      stream_([this](const std::byte* address, size_t bytes) { return Behind(address, bytes); }) {}

// The addresses stay reserved, so that a use that comes too late never hits other memory.
HostStream::~HostStream() = default;

std::byte* HostStream::Behind(const std::byte* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(reserved_),
             at = reinterpret_cast<uintptr_t>(address);
  if (at < begin || at - begin > host_.size() || bytes > host_.size() - (at - begin))
    return nullptr;
  return host_.data() + (at - begin);
}

}  // namespace remesh::worker
