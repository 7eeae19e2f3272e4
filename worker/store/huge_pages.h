// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace remesh::worker {

// Buffers are written once and read once, so what the kernel does for each page of them weighs as
// much as the bytes: on a tmpfs of 4 KiB pages, reserving, mapping and freeing a GiB takes 0.8
// processor seconds, copying it 0.1. With huge pages all of the former is less than 0.1.

inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

// Reserves [offset, offset + bytes) of a file on a tmpfs in huge pages, as far as the kernel has
// them to give; what it has not stays as it was. `offset` is a multiple of kHugePageBytes; the file
// is at least that long. Whatever the mount says of huge pages: MADV_COLLAPSE (Linux 6.1) asks for
// these alone.
//
// False when there is no use in asking for more of the same file: there are none left, or they come
// so slowly that ordinary pages cost less. So they do where memory must first be moved to make room
// for them, and on virtual machines whose host takes back large blocks as soon as they are free.
bool ReserveHugePages(int fd, int64_t offset, int64_t bytes);

bool OnTmpfs(int fd);

// Maps a file from its start, shared and writable, on a boundary that huge pages can be mapped at.
// An empty span when it cannot be mapped: errno says why. bytes > 0.
std::span<std::byte> MapAligned(int fd, int64_t bytes);

}  // namespace remesh::worker
