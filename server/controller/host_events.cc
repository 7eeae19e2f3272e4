// SPDX-License-Identifier: Apache-2.0
#include "server/controller/host_events.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/removal.h"
#include "server/controller/settle.h"
#include "server/controller/values/overloaded.h"

namespace remesh::server {
namespace {

void Attach(StreamId stream, const v1::Register& registration, Machines& machines, Moment now,
            Outbox& out) {
  const std::string& host = registration.host();
  const std::vector<ManifestKey> owed = OwedBy(host, machines);
  Carry({machines.membership.Attach(stream, registration, now, out)}, machines, now, out);
  machines.commands.SendWelcome(registration, out);
  FreeUnmentioned(host, owed, machines, out);
  SettleHost(registration, machines, out);
  // While the journal is behind no Commit is sent, so no host may count as informed.
  if (!machines.leadership.behind()) machines.executions.OnHostReturned(host, now, out);
  machines.states.Assign(host, out);
}

void Refuse(StreamId stream, const absl::Status& why, Outbox& out) {
  out.Note(absl::StrCat("refused a worker: ", why.message()));
  out.Close(stream, AtField("register", why));
}

// The host's new life and a raised epoch must be on disk before it attaches.
void OnRegister(const StreamMessage& message, Machines& machines, Moment now, Outbox& out) {
  const StreamId stream = message.stream;
  const v1::Register& registration = message.message.register_();
  HostFacts facts;
  std::vector<Record> records;
  Leadership& leadership = machines.leadership;
  absl::StatusOr<Enrolment> enrolment =
      machines.membership.Enrol(registration, message.vouched, now, out, facts);
  Carry(facts, machines, now, out);
  absl::Status status = enrolment.status();
  if (status.ok() && WantsDeviceIds(registration)) {
    status = CheckMayChangeDevices(registration, machines.view());
  }
  if (status.ok()) status = leadership.CheckPosition(registration.position());
  if (status.ok()) status = leadership.RaiseEpoch(registration, records);
  if (!status.ok()) return Refuse(stream, status, out);
  if (!enrolment->warning.empty()) out.Warn(enrolment->warning);
  const v1::Register accepted =
      machines.membership.Accept(registration, *std::move(enrolment), now, records);
  if (!leadership.OnProvenHost(registration, records, out)) {
    leadership.Adopt(leadership.highest_epoch());  // for the Welcome; no command follows
    records.clear();
  }
  // What an earlier stream of the host waits for must be on disk for this stream, too.
  const bool waits = machines.parked.Supersede(registration.host(), out) && !leadership.behind();
  if (records.empty() && !waits) return Attach(stream, accepted, machines, now, out);
  machines.parked.Park(stream, accepted);
  out.Persist(std::move(records), HostAdmitted{.stream = stream,
                                               .host = registration.host(),
                                               .epoch = leadership.highest_epoch()});
}

// Checks that the host may still attach. In the meantime an operator may have forgotten or reset
// it, another host may have taken its devices, or new rules may have changed its rack.
absl::Status CheckStillFits(const Membership& membership, const v1::Register& registration) {
  RETURN_IF_ERROR(CheckProven(membership, registration.host()));
  RETURN_IF_ERROR(membership.workers().Check(registration));
  return CheckRoom(membership, registration, membership.durable(registration.host()));
}

// Handles the messages that arrived while the stream waited, until one of them closes the stream.
void Resume(StreamId stream, const std::vector<StreamMessage>& messages, Machines& machines,
            Moment now, Outbox& out) {
  for (const StreamMessage& message : messages) {
    OnStreamMessage(message, machines, now, out);
    if (out.Closes(stream)) return;
  }
}

void OnWorkerMessage(const std::string& host, const v1::AttachRequest& message, Machines& machines,
                     Moment now, Outbox& out) {
  const bool behind = machines.leadership.behind();
  switch (message.event_case()) {
    case v1::AttachRequest::kHeartbeat:
      return machines.executions.OnHeartbeat(host, message.heartbeat(), now);
    case v1::AttachRequest::kManifestChanged:
      return SettleManifest(host, message.manifest_changed().manifest(), machines, out);
    case v1::AttachRequest::kStateWanted:
      return machines.states.OnWanted(host, message.state_wanted().state(), out);
    case v1::AttachRequest::kRetired:
      return Free(host,
                  {{.state = message.retired().state(),
                    .state_uid = message.retired().state_uid(),
                    .generation = message.retired().generation()}},
                  machines, out);
    case v1::AttachRequest::kForgotten:
      if (behind) return;
      return machines.states.deletions().OnForgotten(
          host, {.name = message.forgotten().state(), .uid = message.forgotten().state_uid()}, out);
    default:
      if (behind) return;
      // What a host reports to hold counts, whoever asked.
      if (message.committed().has_manifest()) {
        SettleManifest(host, message.committed().manifest(), machines, out);
      }
      machines.executions.OnMessage(host, message, now, out);
  }
}

}  // namespace

void OnStreamMessage(const StreamMessage& message, Machines& machines, Moment now, Outbox& out) {
  machines.new_streams.Remove(message.stream);
  if (machines.parked.Keep(message, machines.leadership.leads(), out)) return;
  Membership& membership = machines.membership;
  membership.OnMessage(message, now);
  const std::string* host = membership.workers().HostOf(message.stream);
  const bool registers = message.message.event_case() == v1::AttachRequest::kRegister;
  if (registers && host == nullptr) {
    OnRegister(message, machines, now, out);
  } else if (registers || host == nullptr) {
    const absl::Status why = InvalidField("event", registers ? "register" : "not register",
                                          "must be register in the first message, and in no other");
    Carry(membership.DropStream(message.stream, why, now, out), machines, now, out);
  } else {
    OnWorkerMessage(std::string(*host), message.message, machines, now, out);
  }
}

void OnStreamEnded(StreamId stream, Machines& machines, Moment now, Outbox& out) {
  machines.new_streams.Remove(stream);
  machines.parked.Take(stream);
  Carry(machines.membership.EndStream(stream, now, out), machines, now, out);
}

void OnLeadershipBegun(Machines& machines, Moment now, Outbox& out) {
  machines.leadership.OnBegun();
  for (const StreamId stream : machines.parked.streams()) {
    const auto parked = machines.parked.Take(stream);
    if (parked) Resume(stream, parked->messages, machines, now, out);
  }
}

void OnHostAdmitted(const HostAdmitted& admitted, Machines& machines, Moment now, Outbox& out) {
  machines.leadership.Adopt(admitted.epoch);
  Membership& membership = machines.membership;
  const auto parked = machines.parked.Take(admitted.stream);
  const absl::Status status =
      parked ? CheckStillFits(membership, parked->registration) : absl::OkStatus();
  if (parked && status.ok()) {
    Attach(admitted.stream, parked->registration, machines, now, out);
    return Resume(admitted.stream, parked->messages, machines, now, out);
  }
  Carry(membership.AbandonAttach(admitted.host, now, out), machines, now, out);
  if (parked) out.Close(admitted.stream, AtField("register", status));
}

void Carry(const HostFacts& facts, Machines& machines, Moment now, Outbox& out) {
  for (const HostFact& fact : facts) {
    std::visit(Overloaded{[&](const HostAway& away) {
                            machines.states.OnHostAway(away, out);
                            if (machines.leadership.behind()) return;
                            machines.executions.OnHostAway(away, now, out);
                          },
                          [&](const HostForgotten& forgotten) {
                            Free(forgotten.host, forgotten.held, machines, out);
                          }},
               fact);
  }
}

void DropSilentHosts(Machines& machines, Moment now, Outbox& out) {
  machines.membership.ExpireDeparted(now);
  const std::vector<StreamId> silent =
      machines.membership.workers().Silent(now.steady, machines.options.lost_after);
  for (const StreamId stream : silent) {
    Carry(machines.membership.DropSilent(stream, now, out), machines, now, out);
  }
}

void DropHost(const HostAway& host, Machines& machines, Moment now, Outbox& out) {
  const WorkerEntry* worker = machines.membership.workers().Find(host.host);
  if (worker == nullptr || !worker->alive()) return;
  Carry(machines.membership.DropStream(worker->stream, host.why, now, out), machines, now, out);
}

void PersistWithHosts(Reliance reliance, Machines& machines, Outbox& out) {
  std::vector<Record> records = machines.membership.Keep(reliance.hosts);
  std::move(reliance.records.begin(), reliance.records.end(), std::back_inserter(records));
  out.Persist(std::move(records), std::move(reliance.then));
}

}  // namespace remesh::server
