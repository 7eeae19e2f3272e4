// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "planner/values/topology.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/values/event.h"
#include "server/controller/values/placed.h"
#include "server/controller/values/topology_rules.h"

namespace remesh::server {

// One generation of a state, including deleted states of the same name.
struct ManifestKey {
  std::string state;
  std::string state_uid = "";
  int64_t generation = 0;
  auto operator<=>(const ManifestKey&) const = default;
};
ManifestKey KeyOf(const v1::StateManifest& manifest);
// Whether the manifest belongs to an attempt that has not committed on that host.
bool IsPending(const v1::StateManifest& manifest);

// A worker that registered once; alive while a stream of it is attached.
struct WorkerEntry {
  v1::Register registration;  // without manifests and secrets
  planner::Host host;         // as the topology shows it: with the rules applied
  StreamId stream = 0;        // 0: away
  Timestamp last_message{0};
  absl::Time last_message_wall;
  uint64_t progress = 0;  // in its last heartbeat
  uint64_t slices = 0;    // in its last heartbeat, of all attempts
  Timestamp moved{0};     // when `slices` last rose, if it does not report each attempt
  std::map<ManifestKey, v1::StateManifest> manifests;  // what it last reported to hold

  bool alive() const { return stream != 0; }
  const v1::StateManifest* Manifest(const std::string& state, const std::string& state_uid,
                                    int64_t generation) const;
};

// Limits of a topology: see planner::ValidateTopology().
inline constexpr auto kNicCapacityMax = static_cast<int64_t>(planner::kCapacitySumMax);
inline constexpr int kHostManifestsMax = 100'000;

// INVALID_ARGUMENT unless host, secrets, incarnations, devices and capacities make sense and
// nothing is too long: kHostManifestsMax manifests, 10,000 attempts, 64 addresses of 4096 bytes,
// parent of 253 bytes, uids of the position, boot_id and version of 64 bytes. Does not look at
// manifests and attempts one by one, because anyone may cause this call.
absl::Status ValidateRegister(const v1::Register& registration);
// INVALID_ARGUMENT for the first invalid one among the first `most` manifests and attempts.
absl::Status ValidateHeld(const v1::Register& registration, int most = kHostManifestsMax);

// INVALID_ARGUMENT unless names are well-formed and not too long.
absl::Status ValidateManifest(const v1::StateManifest& manifest);

// The registered workers. Not thread-safe; its owner's strand protects it.
class WorkerRegistry {
 public:
  explicit WorkerRegistry(TopologyRules rules = {}) : rules_(std::move(rules)) {}

  // INVALID_ARGUMENT (field "topology") when a registered worker does not fit the rules, or all
  // workers together do not; the old rules then stay.
  absl::Status SetRules(TopologyRules rules);

  // INVALID_ARGUMENT: see ValidateRegister and TopologyRules::Check.
  absl::Status Check(const v1::Register& registration) const;
  // INVALID_ARGUMENT, field "nic_bytes_per_second", if with this registration the NICs of all
  // workers had more than `most` bytes per second.
  absl::Status CheckNicCapacity(const v1::Register& registration, int64_t most) const;
  // The host that registered a device with this id; null: none.
  const std::string* OwnerOf(int64_t device) const;
  // Whether this registration would leave the topology as it is.
  bool IsInTopology(const v1::Register& registration) const;
  // Other hosts that have a device with one of the registration's ids.
  std::set<std::string> OwnersOf(const v1::Register& registration) const;
  // Attaches `stream` and returns the stream of the same host that it replaces, 0 for none.
  // REQUIRES: Check(), and no other host has its devices.
  StreamId Attach(StreamId stream, const v1::Register& registration, Moment now);

  // The host of an attached stream, or null.
  const std::string* HostOf(StreamId stream) const;
  // A heartbeat is a sign of life only if the worker has made progress since the last one.
  void OnMessage(StreamId stream, const v1::AttachRequest& message, Moment now);
  // The server itself stood still for `pause`, which does not count as silence of any worker.
  void ExtendDeadlines(Timestamp pause);
  // The stream's worker is away from now on. Returns its host, or nullopt if the stream was not
  // attached.
  std::optional<std::string> Detach(StreamId stream);
  // Attached streams that have been silent for longer than `lost_after`.
  std::vector<StreamId> Silent(Timestamp now, Timestamp lost_after) const;

  // Null when the host never registered.
  const WorkerEntry* Find(const std::string& host) const;
  WorkerEntry* Find(const std::string& host);
  bool alive(const std::string& host) const;
  void Forget(const std::string& host);
  const std::map<std::string, WorkerEntry>& workers() const { return workers_; }
  // How often Find() was called. Tests hold by it what an event costs among many hosts.
  int64_t finds() const { return finds_; }
  const TopologyRules& rules() const { return rules_; }

 private:
  TopologyRules rules_;
  mutable int64_t finds_ = 0;
  // No host that is attached was last heard before this. Hosts are only heard later, so until the
  // first one may be silent Silent() looks at none.
  mutable Timestamp oldest_message_{0};
  std::map<std::string, WorkerEntry> workers_;
  int64_t nic_capacity_ = 0;  // of all workers together, as planner::NicCapacity() counts
  absl::flat_hash_map<StreamId, std::string> hosts_;  // of attached streams
  absl::flat_hash_map<int64_t, std::string> owners_;  // of devices
};

v1::Worker ToProto(const WorkerEntry& worker);

// FAILED_PRECONDITION (HOST_NOT_ATTACHED, HOST_DEVICES_MISMATCH) unless a live worker of the host
// has the devices.
absl::Status CheckHost(const WorkerRegistry& workers, const std::string& host,
                       const HostDevices& devices);

}  // namespace remesh::server
