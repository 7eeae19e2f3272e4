// SPDX-License-Identifier: Apache-2.0
#include "server/controller/membership/worker_registry.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/resource_names.h"
#include "proto/convert/presets/message_costs.h"
#include "server/controller/values/device_ids.h"
#include "server/controller/values/names.h"

namespace remesh::server {

using google::protobuf::util::TimeUtil;

namespace {

using planner::NicCapacity;

constexpr int kDevicesMax = 4096;
constexpr int64_t kIncarnationMax = int64_t{1} << 62;  // no later life could have a higher one
constexpr size_t kBootIdBytesMax = 64, kVersionBytesMax = 64, kUidBytesMax = 64;
constexpr size_t kWriteBytesMax = 64;
constexpr int kDataAddressesMax = 64, kAttemptsMax = 10'000;
constexpr size_t kTransportBytesMax = 64, kAddressBytesMax = 4096;
constexpr size_t kSecretBytes = 32, kNonceBytes = 16, kTokenBytesMax = 1024;

absl::Status CheckCapacity(std::string_view field, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(value), "must be finite and > 0");
}

// For a host whose NICs have `own` bytes per second beside the `others` of all other hosts.
absl::Status CheckSum(int64_t own, int64_t others, int64_t most) {
  if (own <= most - others) return absl::OkStatus();
  return InvalidField(
      "nic_bytes_per_second", absl::StrCat(own, " of all NICs"),
      absl::StrCat("must leave the NICs of all hosts within ", most, " bytes per second"));
}

// Either the worker gives all device ids, or it leaves all to the server.
absl::Status CheckDevices(const v1::Register& registration) {
  if (registration.devices().empty() || registration.devices_size() > kDevicesMax) {
    return InvalidField("devices", absl::StrCat(registration.devices_size(), " devices"),
                        "must be 1 to 4096 devices");
  }
  const bool assigned = WantsDeviceIds(registration);
  std::set<int64_t> seen;
  for (int i = 0; i < registration.devices_size(); ++i) {
    const int64_t id = registration.devices(i).id();
    if (assigned && id == kAssignedDeviceId) continue;
    if (assigned || id < 0 || !seen.insert(id).second) {
      return InvalidField(absl::StrCat("devices[", i, "].id"), absl::StrCat(id),
                          "must be >= 0 and unique, or -1 for every device of the host");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckIncarnation(std::string_view field, int64_t incarnation) {
  if (incarnation >= 0 && incarnation <= kIncarnationMax) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(incarnation), "must be 0 to 2^62");
}

// Errors do not contain values, because these are secrets.
absl::Status CheckSecrets(const v1::Register& registration) {
  if (registration.host_secret().size() != kSecretBytes) {
    return InvalidField("host_secret", absl::StrCat(registration.host_secret().size(), " bytes"),
                        "must be 32 bytes");
  }
  if (registration.process_nonce().size() != kNonceBytes) {
    return InvalidField("process_nonce",
                        absl::StrCat(registration.process_nonce().size(), " bytes"),
                        "must be 16 bytes");
  }
  if (registration.join_token().size() > kTokenBytesMax) {
    return InvalidField("join_token", absl::StrCat(registration.join_token().size(), " bytes"),
                        "must be at most 1024 bytes");
  }
  return absl::OkStatus();
}

absl::Status CheckBytes(const std::string& field, const std::string& value, size_t most) {
  if (value.size() <= most) return absl::OkStatus();
  return InvalidField(field, value, absl::StrCat("must have at most ", most, " bytes"));
}

// Limits values that are only passed on or shown, so that they cannot fill the memory, the journal
// or a message.
absl::Status CheckProgram(const v1::Register& registration) {
  const v1::JournalPosition& position = registration.position();
  RETURN_IF_ERROR(CheckBytes("parent", registration.parent(), kHostNameMax));
  RETURN_IF_ERROR(CheckBytes("position.cluster_uid", position.cluster_uid(), kUidBytesMax));
  RETURN_IF_ERROR(CheckBytes("position.leadership", position.leadership(), kUidBytesMax));
  RETURN_IF_ERROR(CheckBytes("boot_id", registration.boot_id(), kBootIdBytesMax));
  RETURN_IF_ERROR(CheckBytes("version", registration.version(), kVersionBytesMax));
  if (registration.data_addresses_size() > kDataAddressesMax) {
    return InvalidField("data_addresses",
                        absl::StrCat(registration.data_addresses_size(), " addresses"),
                        absl::StrCat("must be at most ", kDataAddressesMax, " addresses"));
  }
  for (int i = 0; i < registration.data_addresses_size(); ++i) {
    const v1::DataAddress& address = registration.data_addresses(i);
    const std::string field = absl::StrCat("data_addresses[", i, "]");
    RETURN_IF_ERROR(CheckBytes(field + ".transport", address.transport(), kTransportBytesMax));
    RETURN_IF_ERROR(CheckBytes(field + ".address", address.address(), kAddressBytesMax));
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const v1::Register& registration) {
  if (registration.manifests_size() > kHostManifestsMax) {
    return InvalidField("manifests", absl::StrCat(registration.manifests_size(), " manifests"),
                        absl::StrCat("must be at most ", kHostManifestsMax, " manifests"));
  }
  if (registration.attempts_size() > kAttemptsMax) {
    return InvalidField("attempts", absl::StrCat(registration.attempts_size(), " attempts"),
                        absl::StrCat("must be at most ", kAttemptsMax, " attempts"));
  }
  return absl::OkStatus();
}

}  // namespace

ManifestKey KeyOf(const v1::StateManifest& manifest) {
  return {.state = manifest.state(),
          .state_uid = manifest.state_uid(),
          .generation = manifest.generation()};
}

bool IsPending(const v1::StateManifest& manifest) {
  return manifest.phase() == v1::SHARD_PHASE_PREPARED ||
         manifest.phase() == v1::SHARD_PHASE_VERIFIED;
}

const v1::StateManifest* WorkerEntry::Manifest(const std::string& state,
                                               const std::string& state_uid,
                                               int64_t generation) const {
  auto found = manifests.find({state, state_uid, generation});
  return found == manifests.end() ? nullptr : &found->second;
}

absl::Status ValidateManifest(const v1::StateManifest& manifest) {
  constexpr size_t kManifestBytesMax = 4096;
  if (manifest.ByteSizeLong() > kManifestBytesMax) {
    return InvalidField("state", absl::StrCat(manifest.ByteSizeLong(), " bytes"),
                        "must come in a manifest of at most 4096 bytes");
  }
  RETURN_IF_ERROR(ParseStateName("state", manifest.state()).status());
  if (!manifest.execution().empty()) {
    RETURN_IF_ERROR(ParseExecutionName("execution", manifest.execution()).status());
  }
  for (const auto& [field, uid] :
       {std::pair<const char*, const std::string&>{"state_uid", manifest.state_uid()},
        {"cluster_uid", manifest.cluster_uid()}}) {
    if (uid.size() > kUidBytesMax) return InvalidField(field, uid, "must have at most 64 bytes");
  }
  return CheckBytes("write", manifest.write(), kWriteBytesMax);
}

absl::Status ValidateRegister(const v1::Register& registration) {
  if (!IsHostName(registration.host())) {
    return InvalidField("host", registration.host(), "must be 1 to 253 of [A-Za-z0-9._-]");
  }
  RETURN_IF_ERROR(CheckSecrets(registration));
  RETURN_IF_ERROR(CheckIncarnation("incarnation", registration.incarnation()));
  RETURN_IF_ERROR(CheckIncarnation("last_incarnation", registration.last_incarnation()));
  if (registration.nics() < 0) {
    return InvalidField("nics", absl::StrCat(registration.nics()), "must be >= 0");
  }
  RETURN_IF_ERROR(CheckCounts(registration));
  RETURN_IF_ERROR(CheckProgram(registration));
  RETURN_IF_ERROR(CheckCapacity("nic_bytes_per_second", registration.nic_bytes_per_second()));
  RETURN_IF_ERROR(CheckCapacity("fabric_bytes_per_second", registration.fabric_bytes_per_second()));
  RETURN_IF_ERROR(proto::CheckMessageCosts(registration));
  return CheckDevices(registration);
}

absl::Status ValidateHeld(const v1::Register& registration, int most) {
  for (int i = 0; i < std::min(registration.manifests_size(), most); ++i) {
    const absl::Status status = ValidateManifest(registration.manifests(i));
    if (!status.ok()) return AtIndex("manifests", i, status);
  }
  for (int i = 0; i < std::min(registration.attempts_size(), most); ++i) {
    const absl::Status status =
        ParseExecutionName("execution", registration.attempts(i).execution()).status();
    if (!status.ok()) return AtIndex("attempts", i, status);
  }
  return absl::OkStatus();
}

std::set<std::string> WorkerRegistry::OwnersOf(const v1::Register& registration) const {
  std::set<std::string> owners;
  for (const v1::WorkerDevice& device : registration.devices()) {
    const auto owner = owners_.find(device.id());
    if (owner != owners_.end() && owner->second != registration.host())
      owners.insert(owner->second);
  }
  return owners;
}

const std::string* WorkerRegistry::OwnerOf(int64_t device) const {
  const auto owner = owners_.find(device);
  return owner == owners_.end() ? nullptr : &owner->second;
}

bool WorkerRegistry::IsInTopology(const v1::Register& registration) const {
  const WorkerEntry* worker = Find(registration.host());
  return worker != nullptr && worker->host == rules_.HostOf(registration);
}

void WorkerRegistry::Forget(const std::string& host) {
  const auto worker = workers_.find(host);
  if (worker == workers_.end()) return;
  for (const v1::WorkerDevice& device : worker->second.registration.devices()) {
    owners_.erase(device.id());
  }
  nic_capacity_ -= NicCapacity(worker->second.host);
  workers_.erase(worker);
}

absl::Status WorkerRegistry::SetRules(TopologyRules rules) {
  int64_t capacity = 0;
  for (const auto& [host, worker] : workers_) {
    absl::Status fits = rules.Check(worker.registration);
    const int64_t own = NicCapacity(rules.HostOf(worker.registration));
    if (fits.ok()) fits = CheckSum(own, capacity, kNicCapacityMax);
    if (!fits.ok()) {
      return InvalidField("topology", host,
                          absl::StrCat("must fit the worker of that host: ", fits.message()));
    }
    capacity += own;
  }
  rules_ = std::move(rules);
  nic_capacity_ = capacity;
  for (auto& [host, worker] : workers_) worker.host = rules_.HostOf(worker.registration);
  return absl::OkStatus();
}

// Uses a sum that is kept up to date: while all hosts of a large cluster attach, each must not look
// at all others.
absl::Status WorkerRegistry::CheckNicCapacity(const v1::Register& registration,
                                              int64_t most) const {
  const WorkerEntry* before = Find(registration.host());
  const int64_t others = nic_capacity_ - (before != nullptr ? NicCapacity(before->host) : 0);
  return CheckSum(NicCapacity(rules_.HostOf(registration)), others, most);
}

absl::Status WorkerRegistry::Check(const v1::Register& registration) const {
  RETURN_IF_ERROR(ValidateRegister(registration));
  return rules_.Check(registration);
}

StreamId WorkerRegistry::Attach(StreamId stream, const v1::Register& registration, Moment now) {
  const auto [found, is_new] = workers_.try_emplace(registration.host());
  WorkerEntry& worker = found->second;
  if (!is_new) nic_capacity_ -= NicCapacity(worker.host);
  for (const v1::WorkerDevice& device : worker.registration.devices()) owners_.erase(device.id());
  for (const v1::WorkerDevice& device : registration.devices()) {
    owners_[device.id()] = registration.host();
  }
  const StreamId replaced = worker.stream;
  if (replaced != 0) hosts_.erase(replaced);
  worker = WorkerEntry{.registration = registration,
                       .host = rules_.HostOf(registration),
                       .stream = stream,
                       .last_message = now.steady,
                       .last_message_wall = now.wall};
  nic_capacity_ += NicCapacity(worker.host);
  worker.registration.clear_manifests();
  worker.registration.clear_host_secret();
  worker.registration.clear_join_token();
  worker.registration.clear_process_nonce();
  for (const v1::StateManifest& manifest : registration.manifests()) {
    worker.manifests[KeyOf(manifest)] = manifest;
  }
  hosts_[stream] = registration.host();
  return replaced;
}

const std::string* WorkerRegistry::HostOf(StreamId stream) const {
  auto found = hosts_.find(stream);
  return found == hosts_.end() ? nullptr : &found->second;
}

void WorkerRegistry::OnMessage(StreamId stream, const v1::AttachRequest& message, Moment now) {
  const std::string* host = HostOf(stream);
  if (host == nullptr) return;
  WorkerEntry& worker = workers_.at(*host);
  const v1::Heartbeat& beat = message.heartbeat();
  if (beat.slices() != 0) {
    const bool rose = std::exchange(worker.slices, beat.slices()) != beat.slices();
    if (rose && beat.attempts().empty()) worker.moved = now.steady;
  }
  if (const uint64_t progress = beat.progress(); progress != 0) {
    if (std::exchange(worker.progress, progress) == progress) return;
  }
  worker.last_message = now.steady;
  worker.last_message_wall = now.wall;
}

void WorkerRegistry::ExtendDeadlines(Timestamp pause) {
  for (auto& [host, worker] : workers_) worker.last_message += pause;
}

std::optional<std::string> WorkerRegistry::Detach(StreamId stream) {
  auto found = hosts_.find(stream);
  if (found == hosts_.end()) return std::nullopt;
  std::string host = std::move(found->second);
  hosts_.erase(found);
  workers_.at(host).stream = 0;
  return host;
}

std::vector<StreamId> WorkerRegistry::Silent(Timestamp now, Timestamp lost_after) const {
  if (now - oldest_message_ <= lost_after) return {};
  std::vector<StreamId> silent;
  oldest_message_ = now;
  for (const auto& [host, worker] : workers_) {
    if (!worker.alive()) continue;
    oldest_message_ = std::min(oldest_message_, worker.last_message);
    if (now - worker.last_message > lost_after) silent.push_back(worker.stream);
  }
  return silent;
}

const WorkerEntry* WorkerRegistry::Find(const std::string& host) const {
  ++finds_;
  auto found = workers_.find(host);
  return found == workers_.end() ? nullptr : &found->second;
}

WorkerEntry* WorkerRegistry::Find(const std::string& host) {
  ++finds_;
  auto found = workers_.find(host);
  return found == workers_.end() ? nullptr : &found->second;
}

bool WorkerRegistry::alive(const std::string& host) const {
  const WorkerEntry* worker = Find(host);
  return worker != nullptr && worker->alive();
}

v1::Worker ToProto(const WorkerEntry& worker) {
  v1::Worker message;
  message.set_name(absl::StrCat("workers/", worker.registration.host()));
  *message.mutable_registration() = worker.registration;
  for (const auto& [key, manifest] : worker.manifests) {
    *message.mutable_registration()->add_manifests() = manifest;
  }
  message.set_alive(worker.alive());
  message.set_phase(worker.alive() ? v1::Worker::ALIVE : v1::Worker::LOST);
  *message.mutable_last_heartbeat_time() =
      TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(worker.last_message_wall));
  return message;
}

absl::Status CheckHost(const WorkerRegistry& workers, const std::string& host,
                       const HostDevices& devices) {
  const WorkerEntry* worker = workers.Find(host);
  if (worker == nullptr || !worker->alive()) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("host ", host, " has no live worker"),
                     {.reason = "HOST_NOT_ATTACHED", .metadata = {{"host", host}}});
  }
  const int known = worker->registration.devices_size();
  if (devices.local_devices.empty() || devices.local_devices.back() < known)
    return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("host ", host, " has ", known, " devices, not one of local index ",
                                devices.local_devices.back()),
                   {.reason = "HOST_DEVICES_MISMATCH",
                    .metadata = {{"host", host},
                                 {"devices", absl::StrCat(known)},
                                 {"local_index", absl::StrCat(devices.local_devices.back())}}});
}

}  // namespace remesh::server
