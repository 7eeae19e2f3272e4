// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/device.h"
#include "worker/keeper/keeper_client.h"
#include "worker/store/handle_table.h"

namespace remesh::worker {

// Memory of one device that holds shards of one generation, as a file does on the host.
struct DeviceSegment {
  std::shared_ptr<std::byte> memory;  // by the address at which its device reaches it
  std::shared_ptr<const Fd> handle;
  std::string token;  // by which trainers ask for the handle
  std::string kind;   // Device::name()
  std::string device_uuid;
};

// Makes buffers in the memory of devices and finds them again in the next life of the worker: their
// handles are with the keeper. Thread-safe.
class DeviceSegments {
 public:
  // `devices` share memory, and outlive all calls but not what they made. keeper: null: segments end
  // with this process. `handles`, where trainers find theirs, outlives this.
  DeviceSegments(LocalDevices devices, std::unique_ptr<KeeperClient> keeper, HandleTable* handles);
  ~DeviceSegments();

  std::string UuidOf(int local_device) const { return devices_.Of(local_device)->uuid(); }

  // A name that nothing has had before, of that generation's file.
  static std::string NewName(const std::string& state_uid, int64_t generation,
                             const std::string& file);

  std::string KindOf(int local_device) const {
    return std::string(devices_.Of(local_device)->name());
  }
  // Memory of others: as Device::Import().
  absl::StatusOr<std::shared_ptr<std::byte>> Import(int local_device, int handle, int64_t bytes) {
    return devices_.Of(local_device)->Import(handle, bytes);
  }

  // Memory of that device, zero, by a name from NewName(). Errors: Device::Share(); KeeperClient.
  absl::StatusOr<DeviceSegment> Make(const std::string& name, int local_device, int64_t bytes);
  // What an earlier life made. NOT_FOUND (SEGMENT_NOT_FOUND) when nobody keeps it any more,
  // UNAVAILABLE (KEEPER_UNREACHABLE), Device::Import().
  absl::StatusOr<DeviceSegment> Find(const std::string& name, int local_device, int64_t bytes);
  // Lets go of it, here at once and at the keeper soon.
  void Drop(const std::string& name);

  // The names of all that the keeper has of this host; none without a keeper.
  absl::StatusOr<std::vector<std::string>> Names();
  // Of all that is here.
  int64_t bytes() const;
  // Whether the keeper holds all that is here, as far as is known; OK without one.
  absl::Status keeper_status() const;

 private:
  struct Known {
    int64_t bytes = 0;
    std::string device_uuid;
    std::shared_ptr<const Fd> handle;
  };

  DeviceSegment Remember(const std::string& name, int64_t bytes, const Device& device,
                         SharedMemory shared);
  // Drops what is to be dropped, and gives a keeper that was restarted everything anew.
  void Tend();
  absl::Status TendOnce();

  const LocalDevices devices_;
  const std::unique_ptr<KeeperClient> keeper_;
  HandleTable* const handles_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> dropped_ ABSL_GUARDED_BY(mutex_);
  absl::Status keeper_status_ ABSL_GUARDED_BY(mutex_);
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t told_connection_ = 0;  // the tending thread's
  std::thread tending_;          // last: it uses all of the above
};

}  // namespace remesh::worker
