// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/fd.h"
#include "worker/keeper/keeper.pb.h"
#include "worker/keeper/packets.h"

namespace remesh::worker {

// A worker's way to the keeper of its host (keeper_table.h). Calls wait for the answer, 2 s at most.
// UNAVAILABLE (KEEPER_UNREACHABLE; keeper_socket, error) when there is none; what the keeper
// refuses otherwise. Thread-safe.
class KeeperClient {
 public:
  struct Found {
    worker::KeptSegment segment;
    Fd handle;
  };

  // owner: the host's name.
  KeeperClient(std::string socket_path, std::string owner)
      : socket_path_(std::move(socket_path)), owner_(std::move(owner)) {}

  // `handle` stays the caller's.
  absl::Status Keep(const std::string& name, int64_t bytes, const std::string& device_uuid,
                    int handle);
  // NOT_FOUND (SEGMENT_NOT_FOUND).
  absl::StatusOr<Found> Find(const std::string& name);
  absl::Status Drop(const std::string& name);
  // The names of all that it has of this owner.
  absl::StatusOr<std::vector<std::string>> List();

  // Counts connections: with a new one the keeper may be a new one, too, that has nothing.
  int64_t connections() const;

 private:
  absl::StatusOr<Found> Ask(const worker::KeeperRequest& request, int handle);
  absl::StatusOr<Packet> Exchange(const std::string& bytes, int handle)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string socket_path_;
  const std::string owner_;
  mutable absl::Mutex mutex_;
  Fd socket_ ABSL_GUARDED_BY(mutex_);
  int64_t connections_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace remesh::worker
