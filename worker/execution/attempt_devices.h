// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::worker {

// The devices of an attempt that the peer table names, by ordinals in its order. Hosts whose tables
// differ give a device other ordinals, but the same number. A value.
class AttemptDevices {
 public:
  struct Device {
    int peer = 0;   // index in the peer table
    int local = 0;  // index on that host
  };

  // INVALID_ARGUMENT (fields "self", "peers[i].device_ids[j]", "peers[i].first_device") for a self
  // outside the table, a repeated device id, or numbers that do not rise through the table.
  static absl::StatusOr<AttemptDevices> Make(const v1::Prepare& prepare);

  // -1 if the device is not part of this attempt.
  int OrdinalOf(int64_t device_id) const;
  const Device& device(int ordinal) const { return devices_[ordinal]; }
  // By ordinal: the devices' numbers, which all hosts of the attempt share.
  const std::vector<uint32_t>& numbers() const { return numbers_; }
  int count() const { return static_cast<int>(devices_.size()); }
  // The number of devices of a host. This host's own are local devices 0 to local_count() - 1.
  int CountOf(int peer) const;
  int local_count() const { return CountOf(self_); }
  bool here(int ordinal) const { return devices_[ordinal].peer == self_; }
  int self() const { return self_; }

 private:
  int self_ = 0;
  std::vector<Device> devices_;
  std::vector<uint32_t> numbers_;
  absl::flat_hash_map<int64_t, int> ordinal_of_;
};

}  // namespace remesh::worker
