// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/check.h"
#include "worker/store/buffer_store.h"

namespace remesh::fuzz {

// A folder on tmpfs for the buffers of one input, gone with it.
class BufferFolder {
 public:
  BufferFolder() {
    std::string path = "/dev/shm/remesh_fuzz.XXXXXX";
    REMESH_CHECK(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~BufferFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

  std::unique_ptr<worker::BufferStore> Open(worker::HandleTable* handles = nullptr) const {
    auto store = worker::BufferStore::Open({.directory = path_ + "/buffers",
                                            .memory_limit_bytes = kMemoryBytes,
                                            .boot_id = "boot",
                                            .devices = 2,
                                            .handles = handles});
    REMESH_CHECK(store.ok());
    return *std::move(store);
  }

  static constexpr int64_t kMemoryBytes = 64 << 10;

 private:
  std::string path_;
};

}  // namespace remesh::fuzz
