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

// A worker's client of the keeper on its host (keeper_table.h). Calls wait at most 2 s for the
// answer. UNAVAILABLE (KEEPER_UNREACHABLE; keeper_socket, error) if there is none; otherwise the
// code and message of the keeper's error. Thread-safe.
class KeeperClient {
 public:
  struct Found {
    worker::KeptSegment segment;
    Fd handle;
  };

  // `owner`: the host's name.
  KeeperClient(std::string socket_path, std::string owner)
      : socket_path_(std::move(socket_path)), owner_(std::move(owner)) {}

  // `handle` stays the caller's.
  absl::Status Keep(const std::string& name, int64_t bytes, const std::string& device_uuid,
                    int handle);
  // NOT_FOUND if the keeper has no segment of this name.
  absl::StatusOr<Found> Find(const std::string& name);
  absl::Status Drop(const std::string& name);
  // The names of all segments of this owner that the keeper holds.
  absl::StatusOr<std::vector<std::string>> List();

  // Number of connections made so far. After a reconnect the keeper may have restarted, and then
  // holds nothing.
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
