// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace remesh::worker {

// A memory limit that this process is under. The content of a tmpfs counts against it: filling a
// tmpfs past the limit ends in the out-of-memory killer, not in an error.
struct CgroupMemory {
  std::string folder;       // of the group that sets the limit
  int64_t limit_bytes = 0;  // memory.max, or memory.limit_in_bytes of version 1
  int64_t used_bytes = 0;   // without the page cache of files on disk, which the kernel gives up

  int64_t free_bytes() const { return limit_bytes - used_bytes; }
};

// The limit that leaves the least memory, of the process's own group and of all groups above it;
// nullopt if there is none. `membership`: the text of /proc/self/cgroup; `root`: where the groups
// are mounted.
std::optional<CgroupMemory> FindCgroupMemory(const std::string& membership,
                                             const std::string& root);

// The limit of this process, now.
std::optional<CgroupMemory> OwnCgroupMemory(const std::string& root = "/sys/fs/cgroup");

}  // namespace remesh::worker
