// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace remesh::worker {

// A memory limit that this process is under. What a tmpfs holds counts against it: filling one past
// the limit ends in the out-of-memory killer, not in an error.
struct CgroupMemory {
  std::string folder;       // that sets the limit
  int64_t limit_bytes = 0;  // memory.max, or memory.limit_in_bytes of version 1
  int64_t used_bytes = 0;   // without the page cache of files on disk, which the kernel gives up

  int64_t free_bytes() const { return limit_bytes - used_bytes; }
};

// The limit that leaves the least, of the process's own group and of all above it; nullopt where
// there is none. `membership`: the text of /proc/self/cgroup; `root`: where the groups are mounted.
std::optional<CgroupMemory> FindCgroupMemory(const std::string& membership,
                                             const std::string& root);

// Of this process, now.
std::optional<CgroupMemory> OwnCgroupMemory(const std::string& root = "/sys/fs/cgroup");

}  // namespace remesh::worker
