// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
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
  std::shared_ptr<std::byte> memory;  // at the address by which its device reaches it
  std::shared_ptr<const Fd> handle;
  std::string token;  // by which trainers ask for the handle
  std::string kind;   // Device::name()
  std::string device_uuid;
};

// Makes buffers in the memory of devices, and finds them again in the next life of the worker,
// because the keeper holds their handles. Thread-safe.
class DeviceSegments {
 public:
  // `devices` can share memory, and must outlive all calls, but not the segments. keeper: null:
  // segments end with this process. `handles`, in which trainers find theirs, must outlive this
  // object.
  DeviceSegments(LocalDevices devices, std::unique_ptr<KeeperClient> keeper, HandleTable* handles);
  ~DeviceSegments();

  std::string UuidOf(int local_device) const { return devices_.Of(local_device)->uuid(); }

  // A name for a file of that generation, which no segment has had before.
  static std::string NewName(const std::string& state_uid, int64_t generation,
                             const std::string& file);

  std::string KindOf(int local_device) const {
    return std::string(devices_.Of(local_device)->name());
  }
  // Imports memory of another process; see Device::Import().
  absl::StatusOr<std::shared_ptr<std::byte>> Import(int local_device, int handle, int64_t bytes) {
    return devices_.Of(local_device)->Import(handle, bytes);
  }
  // The same by a handle of the legacy IPC, as Device::ImportIpc(), of an allocation of `bytes`
  // that `user` lends. An allocation is open once for everything that the user lends of it; users
  // share neither its length nor its end here. CUDA itself opens a handle once in a process, with a
  // count: a user who knows the handle can keep the allocation mapped. INVALID_ARGUMENT also if the
  // user said before that it is of other bytes.
  absl::StatusOr<std::shared_ptr<std::byte>> ImportIpc(int local_device, uid_t user,
                                                       const std::string& handle, int64_t bytes);

  // Makes a segment of zeros under a name from NewName(). Errors: those of Device::Share() and
  // KeeperClient.
  absl::StatusOr<DeviceSegment> Make(const std::string& name, int local_device, int64_t bytes);
  // Finds a segment that an earlier life made. NOT_FOUND (SEGMENT_NOT_FOUND) if no process keeps it
  // any more, UNAVAILABLE (KEEPER_UNREACHABLE), and the errors of Device::Import().
  absl::StatusOr<DeviceSegment> Find(const std::string& name, int local_device, int64_t bytes);
  // Lets go of the segment: here at once, at the keeper soon.
  void Drop(const std::string& name);

  // The names of all segments that the keeper has of this host; none without a keeper.
  absl::StatusOr<std::vector<std::string>> Names();
  // Bytes of all segments that are here.
  int64_t bytes() const;
  // Whether the keeper holds all segments that are here, as far as is known; OK without a keeper.
  absl::Status keeper_status() const;

 private:
  struct Known {
    int64_t bytes = 0;
    std::string device_uuid;
    std::shared_ptr<const Fd> handle;
  };

  using IpcKey = std::tuple<Device*, uid_t, std::string>;  // the last: the handle
  struct Opened {
    std::weak_ptr<std::byte> memory;
    int64_t bytes = 0;
  };

  DeviceSegment Remember(const std::string& name, int64_t bytes, const Device& device,
                         SharedMemory shared);
  // Drops what must be dropped, and gives everything again to a keeper that was restarted.
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
  absl::Mutex opening_;
  std::map<IpcKey, Opened> opened_ ABSL_GUARDED_BY(opening_);
  int64_t told_connection_ = 0;  // used by the tending thread
  std::thread tending_;          // last: it uses all of the above
};

}  // namespace remesh::worker
