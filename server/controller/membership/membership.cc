// SPDX-License-Identifier: Apache-2.0
#include "server/controller/membership/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

constexpr int kUnknownHostHolds = 1000;  // manifests, and as many attempts

// How much of a host's report is remembered: little of an unknown host. Nothing is freed because of
// what is left out.
int RememberedOf(const HostEntry& entry) {
  return entry.durable ? kHostManifestsMax : kUnknownHostHolds;
}

template <typename Repeated>
void KeepFirst(int count, Repeated& values) {
  if (values.size() > count) values.DeleteSubrange(count, values.size() - count);
}

absl::Status CheckCluster(const std::string& ours, const std::string& theirs) {
  if (theirs.empty() || theirs == ours) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("it belongs to cluster ", theirs, ", this server is of cluster ", ours),
      {.reason = "OTHER_CLUSTER", .metadata = {{"cluster_uid", theirs}, {"ours", ours}}});
}

absl::Status CheckHeld(const v1::Register& registration, int most, const std::string& cluster_uid) {
  RETURN_IF_ERROR(ValidateHeld(registration, most));
  for (int i = 0; i < std::min(registration.manifests_size(), most); ++i) {
    RETURN_IF_ERROR(CheckCluster(cluster_uid, registration.manifests(i).cluster_uid()));
  }
  return absl::OkStatus();
}

// Refuses an unproven host that knows of a later journal, because it could stop the service by
// that claim alone. What a real host holds stays on it.
absl::Status CheckUnproven(const v1::Register& registration, const Leadership& leadership) {
  if (!leadership.HasGoneBackFor(registration) || leadership.accepts_older()) {
    return absl::OkStatus();
  }
  return WorkerError(absl::StatusCode::kFailedPrecondition, "UNPROVEN_POSITION",
                     registration.host(),
                     "knows of a later journal than this one, which is not believed of a host "
                     "that is not known here and has no join token; it keeps what it holds");
}

// Replaces the device ids of a host that leaves them to the server by the ids that it has, or by
// new ones.
void AssignDeviceIds(const WorkerRegistry& workers,
                     absl::FunctionRef<bool(const std::string&)> known, DeviceIds& device_ids,
                     v1::Register& registration, std::vector<Record>& records) {
  const auto taken = [&](int64_t id) { return workers.OwnerOf(id) != nullptr; };
  const std::vector<int64_t> ids =
      device_ids.Assign(registration.host(), registration.devices_size(), taken, known, records);
  for (int i = 0; i < registration.devices_size(); ++i) {
    registration.mutable_devices(i)->set_id(ids[i]);
  }
}

}  // namespace

absl::Status WorkerError(absl::StatusCode code, const char* reason, const std::string& host,
                         std::string_view what) {
  return MakeError(code, absl::StrCat("the worker of host ", host, " ", std::string(what)),
                   {.reason = reason, .metadata = {{"host", host}}});
}

Membership::Membership(const ControllerOptions& options, const Leadership& leadership)
    : options_(options), leadership_(leadership), workers_(options.topology_rules) {}

void Membership::Restore(const Restored& restored, Moment now) {
  device_ids_.Restore(restored);
  drained_ = restored.drained;
  for (const auto& [host, known] : restored.hosts) {
    hosts_[host] = {.known = known, .durable = true, .away_since = now.steady};
  }
  for (const auto& [name, state] : restored.states) {
    for (const auto& [host, part] : state.placed->hosts) {
      hosts_.try_emplace(host, HostEntry{.known = {}, .durable = true, .away_since = now.steady});
    }
  }
}

absl::Status Membership::SetTopologyRules(TopologyRules rules, Outbox& out) {
  RETURN_IF_ERROR(workers_.SetRules(std::move(rules)));
  TopologyChanged change{.domains = workers_.rules().domains()};
  for (const auto& [host, worker] : workers_.workers()) change.hosts.push_back(worker.host);
  out.Add(std::move(change));
  return absl::OkStatus();
}

bool Membership::durable(const std::string& host) const {
  const auto entry = hosts_.find(host);
  return entry != hosts_.end() && entry->second.durable;
}

// Decides who may attach before it looks at anything that an unproven host could make long.
absl::StatusOr<Enrolment> Membership::Enrol(const v1::Register& registration, bool vouched,
                                            Moment now, Outbox& out, HostFacts& facts) {
  const std::string& host = registration.host();
  const std::string& cluster_uid = leadership_.cluster_uid();
  RETURN_IF_ERROR(workers_.Check(registration));
  RETURN_IF_ERROR(CheckCluster(cluster_uid, registration.position().cluster_uid()));
  const auto known = hosts_.find(host);
  ASSIGN_OR_RETURN(Enrolment enrolment,
                   server::Enrol(registration, known == hosts_.end() ? nullptr : &known->second,
                                 vouched, workers_.alive(host), hosts_.size(), now.steady,
                                 {.join_token_hashes = options_.join_token_hashes,
                                  .lost_after = options_.lost_after}));
  RETURN_IF_ERROR(CheckHeld(registration, RememberedOf(enrolment.entry), cluster_uid));
  if (enrolment.entry.durable) {
    facts = MakeWayFor(registration, now, out);
  } else {
    RETURN_IF_ERROR(CheckUnproven(registration, leadership_));
  }
  RETURN_IF_ERROR(CheckRoom(*this, registration, enrolment.entry.durable));
  return enrolment;
}

// Drops unknown hosts that hold device ids of a known one.
HostFacts Membership::MakeWayFor(const v1::Register& registration, Moment now, Outbox& out) {
  HostFacts facts;
  for (const std::string& owner : workers_.OwnersOf(registration)) {
    if (!knows(owner) || durable(owner) || !workers_.alive(owner)) continue;
    for (HostFact& fact :
         DropStream(workers_.Find(owner)->stream,
                    WorkerError(absl::StatusCode::kAlreadyExists, "DEVICE_ID_TAKEN", owner,
                                absl::StrCat("has device ids of host ", registration.host())),
                    now, out)) {
      facts.push_back(std::move(fact));
    }
  }
  return facts;
}

v1::Register Membership::Accept(const v1::Register& registration, Enrolment enrolment, Moment now,
                                std::vector<Record>& records) {
  if (enrolment.changed && enrolment.entry.durable) {
    records.push_back(HostRecord(registration.host(), enrolment.entry.known));
  }
  HostEntry& entry = hosts_[registration.host()] = std::move(enrolment.entry);
  entry.away_since = now.steady;
  v1::Register accepted = registration;
  accepted.set_incarnation(entry.known.incarnation);
  if (WantsDeviceIds(registration)) {
    const auto known = [&](const std::string& host) { return knows(host); };
    AssignDeviceIds(workers_, known, device_ids_, accepted, records);
  }
  KeepFirst(RememberedOf(entry), *accepted.mutable_manifests());
  KeepFirst(RememberedOf(entry), *accepted.mutable_attempts());
  return accepted;
}

HostAway Membership::Attach(StreamId stream, const v1::Register& registration, Moment now,
                            Outbox& out) {
  const std::string& host = registration.host();
  const bool same_topology = workers_.IsInTopology(registration);
  if (workers_.Find(host) == nullptr && durable(host)) last_return_ = now.steady;
  const StreamId replaced = workers_.Attach(stream, registration, now);
  departed_.Remove(host);
  if (replaced != 0) {
    out.Close(replaced,
              WorkerError(absl::StatusCode::kAborted, "SUPERSEDED", host, "attached again"));
  }
  out.Note(
      absl::StrCat("worker of host ", host, " attached, incarnation ", registration.incarnation()));
  if (registration.version() != options_.version) {
    out.Warn(absl::StrCat("worker of host ", host, " is of release \"", registration.version(),
                          "\", this server of \"", options_.version, "\""));
  }
  if (!same_topology) out.Add(TopologyChanged{.hosts = {workers_.Find(host)->host}});
  // Answers on the old stream may be lost, so no attempt goes on over a new stream.
  return {.host = host,
          .why = WorkerError(absl::StatusCode::kUnavailable, "WORKER_RESTARTED", host,
                             "attached again")};
}

HostFacts Membership::AbandonAttach(const std::string& host, Moment now, Outbox& out) {
  HostFacts facts;
  if (!workers_.alive(host)) DropUnproven(host, now, out, facts);
  return facts;
}

void Membership::OnMessage(const StreamMessage& message, Moment now) {
  workers_.OnMessage(message.stream, message.message, now);
}

void Membership::ExtendDeadlines(Timestamp pause) {
  workers_.ExtendDeadlines(pause);
  last_return_ += pause;
  for (auto& [host, entry] : hosts_) entry.away_since += pause;
}

HostFacts Membership::EndStream(StreamId stream, Moment now, Outbox& out) {
  const std::string* host = workers_.HostOf(stream);
  if (host == nullptr) return {};
  return Detach(stream,
                WorkerError(absl::StatusCode::kUnavailable, "WORKER_LOST", *host,
                            "is lost: its stream ended"),
                now, out);
}

HostFacts Membership::DropStream(StreamId stream, const absl::Status& why, Moment now,
                                 Outbox& out) {
  out.Close(stream, why);
  return Detach(stream, why, now, out);
}

HostFacts Membership::DropSilent(StreamId stream, Moment now, Outbox& out) {
  return DropStream(stream,
                    WorkerError(absl::StatusCode::kUnavailable, "WORKER_LOST",
                                *workers_.HostOf(stream), "was silent for too long"),
                    now, out);
}

HostFacts Membership::Detach(StreamId stream, const absl::Status& why, Moment now, Outbox& out) {
  const std::optional<std::string> host = workers_.Detach(stream);
  if (!host) return {};
  HostFacts facts = {HostAway{.host = *host, .why = why}};
  if (!durable(*host)) departed_.Add(*workers_.Find(*host), now.steady);
  DropUnproven(*host, now, out, facts);
  return facts;
}

std::vector<std::string> Membership::AwaitedHosts(Moment now) const {
  std::vector<std::string> awaited;
  for (const auto& [host, entry] : hosts_) {
    const Timestamp since = std::max(entry.away_since, last_return_);
    const bool in_time = now.steady - since <= options_.lost_after &&
                         now.steady - entry.away_since <= kReturnsMax * options_.lost_after;
    if (entry.durable && in_time && workers_.Find(host) == nullptr) awaited.push_back(host);
  }
  return awaited;
}

// Forgets a host that came without a join token and that nothing has relied on.
void Membership::DropUnproven(const std::string& host, Moment now, Outbox& out, HostFacts& facts) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return;
  found->second.away_since = now.steady;
  if (found->second.durable) return;
  hosts_.erase(found);
  const WorkerEntry* worker = workers_.Find(host);
  if (worker == nullptr) return;
  HostForgotten forgotten{.host = host, .held = {}};
  for (const auto& [key, manifest] : worker->manifests) forgotten.held.push_back(key);
  facts.emplace_back(std::move(forgotten));
  workers_.Forget(host);
  out.Add(TopologyChanged{.gone = {host}});
}

std::vector<Record> Membership::Keep(const std::set<std::string>& hosts) {
  std::vector<Record> records;
  for (const std::string& host : hosts) {
    const auto found = hosts_.find(host);
    if (found == hosts_.end() || std::exchange(found->second.durable, true)) continue;
    records.push_back(HostRecord(host, found->second.known));
  }
  return records;
}

bool Membership::Hold(const std::string& host, const v1::StateManifest& manifest) {
  auto& manifests = workers_.Find(host)->manifests;
  const auto most = static_cast<size_t>(RememberedOf(hosts_.at(host)));
  if (manifests.size() >= most && !manifests.contains(KeyOf(manifest))) return false;
  manifests[KeyOf(manifest)] = manifest;
  return true;
}

void Membership::Release(const std::string& host, const ManifestKey& key) {
  if (WorkerEntry* worker = workers_.Find(host)) worker->manifests.erase(key);
}

std::vector<Record> Membership::SetDrained(const std::string& host, bool drained) {
  if (!drained) {
    if (drained_.erase(host) == 0) return {};
    return {NotDrainedRecord(host)};
  }
  if (!drained_.insert(host).second) return {};
  std::vector<Record> records = Keep({host});  // so that the flag outlives the host's absence
  records.push_back(DrainedRecord(host));
  return records;
}

HostFacts Membership::Forget(const std::string& host, FollowUp then, Moment now, Outbox& out) {
  HostFacts facts;
  hosts_.at(host).durable = false;
  DropUnproven(host, now, out, facts);
  std::vector<Record> records = SetDrained(host, false);
  records.push_back(NoHostRecord(host));
  device_ids_.Forget(host, records);
  out.Persist(std::move(records), std::move(then));
  return facts;
}

void Membership::Reset(const std::string& host, FollowUp then, Outbox& out) {
  HostEntry& entry = hosts_.at(host);
  entry.known.secret_hash.clear();
  out.Persist({HostRecord(host, entry.known)}, std::move(then));
  out.Warn(absl::StrCat("host ", host, " was reset: the next worker of that name is taken for it"));
}

absl::Status CheckKnown(const Membership& membership, const std::string& host) {
  if (membership.knows(host)) return absl::OkStatus();
  const std::string name = absl::StrCat("workers/", host);
  return MakeError(absl::StatusCode::kNotFound, absl::StrCat(name, " does not exist"),
                   {.reason = "WORKER_NOT_FOUND", .metadata = {{"name", name}}});
}

absl::Status CheckProven(const Membership& membership, const std::string& host) {
  if (!membership.knows(host)) {
    return WorkerError(absl::StatusCode::kUnavailable, "WORKER_FORGOTTEN", host,
                       "was forgotten while it attached: it may attach again");
  }
  if (!membership.hosts().at(host).known.secret_hash.empty()) return absl::OkStatus();
  return WorkerError(absl::StatusCode::kUnavailable, "WORKER_RESET", host,
                     "was reset while it attached: it may attach again");
}

absl::Status CheckAway(const Membership& membership, const std::string& host) {
  RETURN_IF_ERROR(CheckKnown(membership, host));
  if (!membership.workers().alive(host)) return absl::OkStatus();
  return WorkerError(absl::StatusCode::kFailedPrecondition, "WORKER_ALIVE", host,
                     "is still running: stop it first");
}

absl::Status CheckDevicesFree(const Membership& membership, const v1::Register& registration) {
  for (const v1::WorkerDevice& device : registration.devices()) {
    for (const std::string* owner : {membership.workers().OwnerOf(device.id()),
                                     membership.device_ids().OwnerOf(device.id())}) {
      if (owner == nullptr || *owner == registration.host()) continue;
      const std::string id = absl::StrCat(device.id());
      return MakeError(
          absl::StatusCode::kAlreadyExists,
          absl::StrCat("device id ", id, " belongs to host ", *owner),
          {.reason = "DEVICE_ID_TAKEN", .metadata = {{"device", id}, {"host", *owner}}});
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRoom(const Membership& membership, const v1::Register& registration,
                       bool durable) {
  RETURN_IF_ERROR(CheckDevicesFree(membership, registration));
  return membership.workers().CheckNicCapacity(registration,
                                               durable ? kNicCapacityMax : kNicCapacityMax / 2);
}

absl::Status CheckNotDrained(const Membership& membership, const std::string& host) {
  if (!membership.drained(host)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("host ", host, " is drained: nothing new may be placed on it"),
                   {.reason = "HOST_DRAINED", .metadata = {{"host", host}}});
}

}  // namespace remesh::server
