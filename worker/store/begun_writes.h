// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/manifest.pb.h"

namespace remesh::worker {

// Names of writes that began where no memory is left whose manifest could keep the name: a loan was
// given back, or buffers were freed after Unseal. The state's next shards here are of that write.
// In a file, because the next life of the worker must not take them for an unnamed write. What
// cannot be written, on a full file system, this life knows all the same: a trainer gets its memory
// back in any case. Not thread-safe.
class BegunWrites {
 public:
  // The oldest goes beyond that: a state may be deleted without this host's knowledge.
  static constexpr size_t kMax = 1000;

  // Reads the file, if there is one. DATA_LOSS (CORRUPT_FILE) leaves this empty.
  absl::Status Open(std::string path);

  // nullopt if no write has begun. `state_uid` tells states of one name apart.
  std::optional<std::string> Find(const std::string& state, const std::string& state_uid) const;
  // Replaces what there is of any state of the name.
  void Add(const std::string& state, const std::string& state_uid, const std::string& write);
  void Drop(const std::string& state, const std::string& state_uid);

 private:
  void Replace(worker::BegunWriteList next);

  std::string path_;
  worker::BegunWriteList list_;  // oldest first
};

}  // namespace remesh::worker
