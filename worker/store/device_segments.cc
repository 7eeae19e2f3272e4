// SPDX-License-Identifier: Apache-2.0
#include "worker/store/device_segments.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/random_bytes.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

constexpr absl::Duration kTendEvery = absl::Seconds(1);

}  // namespace

DeviceSegments::DeviceSegments(LocalDevices devices, std::unique_ptr<KeeperClient> keeper,
                               HandleTable* handles)
    : devices_(std::move(devices)), keeper_(std::move(keeper)), handles_(handles) {
  if (keeper_ != nullptr) tending_ = std::thread([this] { Tend(); });
}

DeviceSegments::~DeviceSegments() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  if (tending_.joinable()) tending_.join();
}

DeviceSegment DeviceSegments::Remember(const std::string& name, int64_t bytes, const Device& device,
                                       SharedMemory shared) {
  const auto handle = std::make_shared<const Fd>(std::move(shared.handle));
  DeviceSegment segment{.memory = std::move(shared.memory),
                        .handle = handle,
                        .token = handles_->Offer(handle),
                        .kind = std::string(device.name()),
                        .device_uuid = device.uuid()};
  absl::MutexLock lock(&mutex_);
  known_[name] = {bytes, segment.device_uuid, handle};
  return segment;
}

std::string DeviceSegments::NewName(const std::string& state_uid, int64_t generation,
                                    const std::string& file) {
  constexpr size_t kRandomBytes = 8;
  return absl::StrCat(state_uid, "/", generation, "/", file, "/",
                      absl::BytesToHexString(RandomBytes(kRandomBytes)));
}

absl::StatusOr<DeviceSegment> DeviceSegments::Make(const std::string& name, int local_device,
                                                   int64_t bytes) {
  Device* const device = devices_.Of(local_device);
  ASSIGN_OR_RETURN(SharedMemory shared, device->Share(bytes));
  // Recorded first, so that a keeper that is restarted in between is sent it with the rest.
  DeviceSegment made = Remember(name, bytes, *device, std::move(shared));
  if (keeper_ != nullptr)
    RETURN_IF_ERROR(keeper_->Keep(name, bytes, made.device_uuid, made.handle->get()));
  return made;
}

absl::StatusOr<DeviceSegment> DeviceSegments::Find(const std::string& name, int local_device,
                                                   int64_t bytes) {
  if (keeper_ == nullptr) {
    return MakeError(absl::StatusCode::kNotFound,
                     "no keeper_socket is set: buffers of devices ended with the last worker",
                     {"SEGMENT_NOT_FOUND", {{"segment", name}}});
  }
  ASSIGN_OR_RETURN(KeeperClient::Found found, keeper_->Find(name));
  Device* const device = devices_.Of(local_device);
  ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, device->Import(found.handle.get(), bytes));
  return Remember(name, bytes, *device, {std::move(memory), std::move(found.handle)});
}

absl::StatusOr<std::shared_ptr<std::byte>> DeviceSegments::ImportIpc(int local_device, uid_t user,
                                                                     const std::string& handle,
                                                                     int64_t bytes) {
  Device* const device = devices_.Of(local_device);
  absl::MutexLock lock(&opening_);
  std::erase_if(opened_, [](const auto& entry) { return entry.second.memory.expired(); });
  Opened& known = opened_[{device, user, handle}];
  if (std::shared_ptr<std::byte> memory = known.memory.lock()) {
    if (known.bytes == bytes) return memory;
    return InvalidField("bytes", absl::StrCat(bytes),
                        absl::StrCat("must be ", known.bytes, ", as said of this handle before"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, device->ImportIpc(handle, bytes));
  known = {memory, bytes};
  return memory;
}

void DeviceSegments::Drop(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  known_.erase(name);
  if (keeper_ != nullptr) dropped_.push_back(name);
}

absl::StatusOr<std::vector<std::string>> DeviceSegments::Names() {
  if (keeper_ == nullptr) return std::vector<std::string>();
  return keeper_->List();
}

int64_t DeviceSegments::bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [name, known] : known_) bytes += known.bytes;
  return bytes;
}

absl::Status DeviceSegments::keeper_status() const {
  absl::MutexLock lock(&mutex_);
  return keeper_status_;
}

void DeviceSegments::Tend() {
  while (true) {
    const absl::Status status = TendOnce();
    absl::MutexLock lock(&mutex_);
    keeper_status_ = status;
    const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ends_ || (keeper_status_.ok() && !dropped_.empty());
    };
    mutex_.AwaitWithTimeout(absl::Condition(&has_work), kTendEvery);
    if (ends_ && (dropped_.empty() || !keeper_status_.ok())) return;
  }
}

absl::Status DeviceSegments::TendOnce() {
  std::vector<std::string> dropped;
  {
    absl::MutexLock lock(&mutex_);
    dropped = dropped_;
  }
  for (const std::string& name : dropped) {
    RETURN_IF_ERROR(keeper_->Drop(name));
    absl::MutexLock lock(&mutex_);
    std::erase(dropped_, name);
  }
  // Any request finds out whether the keeper was restarted.
  if (const absl::Status status = keeper_->Find(" ").status(); !absl::IsNotFound(status))
    return status;
  const int64_t connection = keeper_->connections();
  if (connection == told_connection_) return absl::OkStatus();
  std::map<std::string, Known> known;
  {
    absl::MutexLock lock(&mutex_);
    known = known_;
  }
  for (const auto& [name, one] : known) {
    RETURN_IF_ERROR(keeper_->Keep(name, one.bytes, one.device_uuid, one.handle->get()));
    // It was dropped in the meantime: drop it at the keeper once more.
    absl::MutexLock lock(&mutex_);
    if (!known_.contains(name)) dropped_.push_back(name);
  }
  if (keeper_->connections() == connection) told_connection_ = connection;
  return absl::OkStatus();
}

}  // namespace remesh::worker
