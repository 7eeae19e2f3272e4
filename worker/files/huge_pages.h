// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace remesh::worker {

// Buffers are written once and read once, so the kernel's work for their pages weighs as much as
// the bytes. On a tmpfs of 4 KiB pages, reserving, mapping and freeing a GiB takes 0.8 processor
// seconds, and copying it 0.1. With huge pages, reserving, mapping and freeing take less than 0.1.

inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

// Reserves [offset, offset + bytes) of a file on a tmpfs in huge pages, as far as the kernel has
// them to give; the rest stays as it was. `offset` is a multiple of kHugePageBytes, and the file is
// at least that long. This works whatever the mount says of huge pages, because MADV_COLLAPSE
// (Linux 6.1) asks for these alone.
//
// Returns false if there is no use in asking for more of the same file: none are left, or they come
// so slowly that ordinary pages cost less. They are slow where memory must first be moved to make
// room for them, and on virtual machines whose host takes back large blocks as soon as they are
// free.
bool ReserveHugePages(int fd, int64_t offset, int64_t bytes);

bool OnTmpfs(int fd);

// Maps a file from its start, shared and writable, at an address where huge pages can be mapped.
// Returns an empty span if it cannot be mapped; errno says why. bytes > 0.
std::span<std::byte> MapAligned(int fd, int64_t bytes);

}  // namespace remesh::worker
