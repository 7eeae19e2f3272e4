// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/leadership/leadership.h"
#include "server/controller/membership/departed.h"
#include "server/controller/membership/worker_registry.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/values/device_ids.h"
#include "server/controller/values/enrolment.h"
#include "server/controller/values/follow_up.h"
#include "server/controller/values/outbox.h"
#include "server/controller/values/records.h"

namespace remesh::server {

// Facts about a host that machines after membership must learn.
struct HostAway {  // its stream ended, or another one took its place
  std::string host;
  absl::Status why;
};
struct HostForgotten {  // and with it what it held
  std::string host;
  std::vector<ManifestKey> held;
};
using HostFact = std::variant<HostAway, HostForgotten>;
using HostFacts = std::vector<HostFact>;

// FAILED_PRECONDITION (`reason`), or another code, about the worker of a host.
absl::Status WorkerError(absl::StatusCode code, const char* reason, const std::string& host,
                         std::string_view what);

// Which hosts are known, which of them are attached, and who may attach as which life of which
// host. Knows only the journal and the leadership. Not thread-safe.
class Membership {
 public:
  Membership(const ControllerOptions& options, const Leadership& leadership);
  // Also makes every host known that a state relies on. If the journal has no entry for such a
  // host, the next worker of that name is taken for it.
  void Restore(const Restored& restored, Moment now);

  const WorkerRegistry& workers() const { return workers_; }
  const DeviceIds& device_ids() const { return device_ids_; }
  // INVALID_ARGUMENT as WorkerRegistry::SetRules().
  absl::Status SetTopologyRules(TopologyRules rules, Outbox& out);
  bool knows(const std::string& host) const { return hosts_.contains(host); }
  // Known hosts by name. Those that attached only to earlier leaders are not in workers().
  const std::map<std::string, HostEntry>& hosts() const { return hosts_; }
  // Whether the journal has the host, or will have it once the transactions on their way are on
  // disk.
  bool durable(const std::string& host) const;

  // Hosts that the journal has and that have not attached since this leader began, sorted; none once
  // they are lost: lost_after (ControllerOptions) after the last of them came back, and at most
  // kReturnsMax times that after the leader began. So none is lost while it still waits in line.
  static constexpr int kReturnsMax = 12;
  std::vector<std::string> AwaitedHosts(Moment now) const;

  // Decides whether the worker may attach, and as which life of its host. Unknown hosts make way
  // for one that proves its identity. `vouched`, errors: see Enrol(); also the errors of
  // WorkerRegistry::Check(), ValidateHeld() and CheckRoom().
  absl::StatusOr<Enrolment> Enrol(const v1::Register& registration, bool vouched, Moment now,
                                  Outbox& out, HostFacts& facts);
  // Accepts the enrolment, and assigns device ids if they are left to the server. Adds to `records`
  // what must be on disk before Attach().
  v1::Register Accept(const v1::Register& registration, Enrolment enrolment, Moment now,
                      std::vector<Record>& records);
  // Attaches the stream. The caller must hand the fact on before it does anything else about the
  // host.
  HostAway Attach(StreamId stream, const v1::Register& registration, Moment now, Outbox& out);
  // Undoes Accept(): the host's record is on disk, but its stream has ended or another host took
  // its devices.
  HostFacts AbandonAttach(const std::string& host, Moment now, Outbox& out);

  // Workers that left while nothing relied on their hosts.
  const DepartedWorkers& departed() const { return departed_; }
  void ExpireDeparted(Moment now) { departed_.Expire(now.steady); }

  void OnMessage(const StreamMessage& message, Moment now);
  void ExtendDeadlines(Timestamp pause);  // the server itself stood still
  HostFacts EndStream(StreamId stream, Moment now, Outbox& out);
  HostFacts DropStream(StreamId stream, const absl::Status& why, Moment now, Outbox& out);
  HostFacts DropSilent(StreamId stream, Moment now, Outbox& out);

  // Makes the entries of hosts that something relies on durable, with the proof of their identity.
  // Returns the records to write.
  std::vector<Record> Keep(const std::set<std::string>& hosts);
  // Notes what a host reports to hold. False: it holds too much.
  bool Hold(const std::string& host, const v1::StateManifest& manifest);
  void Release(const std::string& host, const ManifestKey& key);

  // Whether nothing new may be placed on the host.
  bool drained(const std::string& host) const { return drained_.contains(host); }
  // Returns what must be written. REQUIRES: CheckKnown().
  std::vector<Record> SetDrained(const std::string& host, bool drained);

  // `then` follows when the change is on disk. REQUIRES: CheckAway(), for both.
  HostFacts Forget(const std::string& host, FollowUp then, Moment now, Outbox& out);
  void Reset(const std::string& host, FollowUp then, Outbox& out);

 private:
  HostFacts MakeWayFor(const v1::Register& registration, Moment now, Outbox& out);
  HostFacts Detach(StreamId stream, const absl::Status& why, Moment now, Outbox& out);
  void DropUnproven(const std::string& host, Moment now, Outbox& out, HostFacts& facts);

  const ControllerOptions& options_;
  const Leadership& leadership_;
  WorkerRegistry workers_;
  DepartedWorkers departed_;
  // Hosts that attached, also to earlier leaders with this journal.
  std::map<std::string, HostEntry> hosts_;
  DeviceIds device_ids_;
  Timestamp last_return_{0};       // of a host that has not attached to this leader before
  std::set<std::string> drained_;  // known hosts
};

// NOT_FOUND.
absl::Status CheckKnown(const Membership& membership, const std::string& host);
// UNAVAILABLE (WORKER_FORGOTTEN, WORKER_RESET): an operator has revoked the proof of identity by
// which the host is being admitted.
absl::Status CheckProven(const Membership& membership, const std::string& host);
// NOT_FOUND, or FAILED_PRECONDITION (WORKER_ALIVE).
absl::Status CheckAway(const Membership& membership, const std::string& host);
// ALREADY_EXISTS (DEVICE_ID_TAKEN): another host has a device with one of these ids.
absl::Status CheckDevicesFree(const Membership& membership, const v1::Register& registration);
// As CheckDevicesFree(), and INVALID_ARGUMENT as from WorkerRegistry::CheckNicCapacity() when a
// topology may not have that much. Hosts that are not `durable` must leave half of the capacity to
// hosts that prove their identity.
absl::Status CheckRoom(const Membership& membership, const v1::Register& registration,
                       bool durable);
// FAILED_PRECONDITION (HOST_DRAINED): nothing new may be placed on the host.
absl::Status CheckNotDrained(const Membership& membership, const std::string& host);

}  // namespace remesh::server
