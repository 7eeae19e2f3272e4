// SPDX-License-Identifier: Apache-2.0
// Who may attach, as which life of which host, and what must be on disk before it is welcomed.
#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/controller.h"
#include "server/controller/journal_position.h"
#include "server/controller/names.h"
#include "server/controller/pagination.h"

namespace remesh {
namespace {

constexpr uint64_t kEpochJumpMax = uint64_t{1} << 32;
constexpr uint64_t kEpochMax = uint64_t{1} << 63;
constexpr int kStrangerManifests = 1000;

absl::Status WorkerError(absl::StatusCode code, const char* reason, const std::string& host,
                         std::string_view what) {
  return MakeError(code, absl::StrCat("the worker of host ", host, " ", std::string(what)),
                   {.reason = reason, .metadata = {{"host", host}}});
}

absl::Status CheckCluster(const std::string& ours, const std::string& theirs) {
  if (theirs.empty() || theirs == ours) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("it belongs to cluster ", theirs, ", this server is of cluster ", ours),
      {.reason = "OTHER_CLUSTER", .metadata = {{"cluster_uid", theirs}, {"ours", ours}}});
}

}  // namespace

// Everything but who it is.
absl::Status Controller::CheckRegister(const v1::Register& registration) const {
  RETURN_IF_ERROR(workers_.Check(registration));
  RETURN_IF_ERROR(CheckCluster(past_.cluster_uid, registration.position().cluster_uid()));
  for (const v1::StateManifest& manifest : registration.manifests()) {
    RETURN_IF_ERROR(CheckCluster(past_.cluster_uid, manifest.cluster_uid()));
  }
  return absl::OkStatus();
}

// Who it is, and whether it may attach as that; `records`: what must be on disk first.
absl::StatusOr<Enrolment> Controller::Admit(const v1::Register& registration,
                                            std::vector<Record>& records) {
  const std::string& host = registration.host();
  RETURN_IF_ERROR(CheckRegister(registration));
  const auto known = hosts_.find(host);
  ASSIGN_OR_RETURN(
      Enrolment enrolment,
      Enrol(registration, known == hosts_.end() ? nullptr : &known->second, workers_.alive(host),
            hosts_.size(), now_.steady,
            {.join_token_hashes = options_.join_token_hashes, .lost_after = options_.lost_after}));
  if (enrolment.entry.durable) {
    MakeWayFor(registration);
  } else {
    RETURN_IF_ERROR(CheckUnproven(registration));
  }
  RETURN_IF_ERROR(workers_.CheckDevicesFree(registration));
  RETURN_IF_ERROR(RaiseEpoch(registration, records));
  if (enrolment.changed && enrolment.entry.durable) {
    records.push_back(HostRecord(host, enrolment.entry.known));
  }
  return enrolment;
}

// A stranger could stop the service by a word. What a real host holds stays there meanwhile.
absl::Status Controller::CheckUnproven(const v1::Register& registration) const {
  const bool later =
      HasGoneBack(past_, durable_sequence_, lost_leaderships_, registration.position());
  if (!later || past_.accepts_older) return absl::OkStatus();
  return WorkerError(absl::StatusCode::kFailedPrecondition, "UNPROVEN_POSITION",
                     registration.host(),
                     "was told of a later journal than this one, which is not believed of a host "
                     "that is not known here and has no join token; it keeps what it holds");
}

// Strangers do not keep a host out by its device ids.
void Controller::MakeWayFor(const v1::Register& registration) {
  for (const std::string& owner : workers_.OwnersOf(registration)) {
    const auto entry = hosts_.find(owner);
    if (entry == hosts_.end() || entry->second.durable || !workers_.alive(owner)) continue;
    DropStream(workers_.Find(owner)->stream,
               WorkerError(absl::StatusCode::kAlreadyExists, "DEVICE_ID_TAKEN", owner,
                           absl::StrCat("has device ids of host ", registration.host())));
  }
}

void Controller::OnRegister(StreamId stream, const v1::Register& registration) {
  std::vector<Record> records;
  absl::StatusOr<Enrolment> enrolment = Admit(registration, records);
  if (!enrolment.ok()) {
    AddNote(absl::StrCat("refused a worker: ", enrolment.status().message()));
    out_.push_back(
        CloseStream{.stream = stream, .status = AtField("register", enrolment.status())});
    return;
  }
  if (!enrolment->warning.empty()) Warn(enrolment->warning);
  HostEntry& entry = hosts_[registration.host()] = std::move(enrolment->entry);
  entry.away_since = now_.steady;
  v1::Register accepted = registration;
  accepted.set_incarnation(entry.known.incarnation);
  // Of a stranger little is remembered; nothing of it is freed either way.
  const int kept =
      std::min(accepted.manifests_size(), entry.durable ? INT_MAX : kStrangerManifests);
  accepted.mutable_manifests()->DeleteSubrange(kept, accepted.manifests_size() - kept);
  if (!CheckPosition(registration, records) || !behind_.empty()) {
    epoch_ = std::max(epoch_, highest_epoch_);  // for the Welcome; no command follows
    records.clear();
  }
  if (records.empty()) return Attach(stream, std::move(accepted));
  parked_[stream] = {};
  Persist(std::move(records), [this, stream, accepted, epoch = highest_epoch_] {
    epoch_ = std::max(epoch_, epoch);
    AttachParked(stream, accepted);
  });
}

// The journal has who it is, if it is still there.
void Controller::AttachParked(StreamId stream, const v1::Register& registration) {
  const auto waiting = parked_.extract(stream);
  // Another host may have taken its devices meanwhile.
  const absl::Status status = workers_.CheckDevicesFree(registration);
  if (waiting.empty() || !status.ok()) {
    if (!workers_.alive(registration.host())) DropUnprovenHost(registration.host());
    if (waiting.empty()) return;
    out_.push_back(CloseStream{.stream = stream, .status = AtField("register", status)});
    return;
  }
  Attach(stream, registration);
  HearParked(stream, waiting.mapped());
}

// Whether the journal is at least as new as what the worker was told of it.
bool Controller::CheckPosition(const v1::Register& registration, std::vector<Record>& records) {
  const v1::JournalPosition& position = registration.position();
  if (!HasGoneBack(past_, durable_sequence_, lost_leaderships_, position)) return true;
  const std::string what = absl::StrCat(
      "the worker of host ", registration.host(), " was told of a later journal than this one (",
      "leadership ", position.leadership(), ", transaction ", position.sequence(), ")");
  if (past_.accepts_older && position.leadership() != past_.leadership) {
    lost_leaderships_.insert(position.leadership());
    records.push_back(LostLeadershipRecord(position.leadership()));
    Warn(absl::StrCat(what, ": what it says beyond ours is lost, as --accept-older-journal wants"));
    return true;
  }
  if (behind_.insert(registration.host()).second) {
    Warn(absl::StrCat(what,
                      ": the journal has gone back in time, nothing is decided any more; "
                      "restore it, or start with --accept-older-journal=",
                      past_.journal_uid));
  }
  return false;
}

// Commands need an epoch above every other planner's that the worker obeyed. Only a journal that
// went back, or is new, meets one.
absl::Status Controller::RaiseEpoch(const v1::Register& registration,
                                    std::vector<Record>& records) {
  const uint64_t theirs = registration.highest_epoch();
  const bool ours = registration.position().leadership() == past_.leadership;
  if (theirs < epoch_ || (theirs == epoch_ && ours)) return absl::OkStatus();
  // Each leadership adds 1: who claims more would only use the numbers up.
  if (theirs > kEpochMax || theirs > highest_epoch_ + kEpochJumpMax) {
    return InvalidField("highest_epoch", absl::StrCat(theirs),
                        absl::StrCat("must be at most 2^32 above ours, ", epoch_));
  }
  highest_epoch_ = std::max(highest_epoch_, theirs + 1);
  records.push_back(EpochRecord(highest_epoch_));
  return absl::OkStatus();
}

void Controller::Attach(StreamId stream, v1::Register registration) {
  const std::string host = registration.host();
  const StreamId replaced = workers_.Attach(stream, registration, now_);
  if (replaced != 0) {
    out_.push_back(CloseStream{
        .stream = replaced,
        .status = WorkerError(absl::StatusCode::kAborted, "SUPERSEDED", host, "attached again")});
  }
  AddNote(
      absl::StrCat("worker of host ", host, " attached, incarnation ", registration.incarnation()));
  // Answers that an old stream carried may be lost, so no attempt goes on over a new one.
  WorkerAway(
      host, WorkerError(absl::StatusCode::kUnavailable, "WORKER_RESTARTED", host, "attached anew"));
  PublishTopology();
  Greet(host, registration);
}

void Controller::Unpark(StreamId stream) {
  const auto parked = parked_.extract(stream);
  if (!parked.empty()) HearParked(stream, parked.mapped());
}

// What a stream said while it waited; nothing more once that has closed it.
void Controller::HearParked(StreamId stream, const std::vector<v1::AttachRequest>& messages) {
  const auto closes = [stream](const Action& action) {
    const CloseStream* close = std::get_if<CloseStream>(&action);
    return close != nullptr && close->stream == stream;
  };
  for (const v1::AttachRequest& message : messages) {
    OnMessage(stream, message);
    if (std::any_of(out_.begin(), out_.end(), closes)) return;
  }
}

// A host that states rely on keeps its entry, and the proof of who it is.
std::vector<Record> Controller::KeepHosts(const std::set<std::string>& hosts) {
  std::vector<Record> records;
  for (const std::string& host : hosts) {
    const auto found = hosts_.find(host);
    if (found == hosts_.end() || std::exchange(found->second.durable, true)) continue;
    records.push_back(HostRecord(host, found->second.known));
  }
  return records;
}

// Who came without a join token and was never relied on leaves nothing behind.
void Controller::DropUnprovenHost(const std::string& host) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return;
  found->second.away_since = now_.steady;
  if (found->second.durable) return;
  hosts_.erase(found);
  if (const WorkerEntry* worker = workers_.Find(host)) {
    const auto manifests = worker->manifests;  // a copy: they are dropped
    for (const auto& [key, manifest] : manifests) DropHeld(host, key);
  }
  workers_.Forget(host);
  PublishTopology();
}

absl::StatusOr<Reply> Controller::Answer(const v1::ListWorkersRequest& request) const {
  ASSIGN_OR_RETURN(const PageStart start,
                   ParsePage(request.page_size(), request.page_token(), "workers"));
  constexpr int kOwedMax = 1000;
  const auto describe = [this](const WorkerEntry& worker) {
    v1::Worker message = ToProto(worker);
    for (const auto& [key, manifest] : worker.manifests) {
      const auto owed = owed_.find({key, worker.registration.host()});
      if (owed == owed_.end() || message.owed_size() == kOwedMax) continue;
      *message.add_owed()->mutable_manifest() = owed->second.manifest;
      message.mutable_owed()->rbegin()->set_reason(owed->second.reason);
    }
    return message;
  };
  v1::ListWorkersResponse response;
  response.set_next_page_token(FillPage(
      workers_.workers(), start, "workers", [](const WorkerEntry&) { return true; }, describe,
      options_.page_bytes_max, *response.mutable_workers()));
  return response;
}

absl::Status Controller::CheckAway(const std::string& host) const {
  if (!hosts_.contains(host)) {
    const std::string name = absl::StrCat("workers/", host);
    return MakeError(absl::StatusCode::kNotFound, absl::StrCat(name, " does not exist"),
                     {.reason = "NOT_FOUND", .metadata = {{"name", name}}});
  }
  if (!workers_.alive(host)) return absl::OkStatus();
  return WorkerError(absl::StatusCode::kFailedPrecondition, "WORKER_ALIVE", host, "is alive");
}

absl::StatusOr<Reply> Controller::Answer(const v1::ForgetWorkerRequest& request) {
  ASSIGN_OR_RETURN(const std::string host, ParseWorkerName("name", request.name()));
  RETURN_IF_ERROR(CheckAway(host));
  if (!states_.NamesOn(host).empty()) {
    return WorkerError(absl::StatusCode::kFailedPrecondition, "WORKER_HOLDS_SHARDS", host,
                       absl::StrCat("holds shards of ", states_.NamesOn(host).front()));
  }
  for (const std::string& name : running_) {
    if (!moves_.at(name).execution.has_participant(host)) continue;
    return WorkerError(absl::StatusCode::kFailedPrecondition, "WORKER_HOLDS_SHARDS", host,
                       absl::StrCat("takes part in ", name));
  }
  hosts_.at(host).durable = false;
  DropUnprovenHost(host);
  Persist({NoHostRecord(host)}, [] {});
  return google::protobuf::Empty();
}

absl::StatusOr<Reply> Controller::Answer(const v1::ResetWorkerRequest& request) {
  ASSIGN_OR_RETURN(const std::string host, ParseWorkerName("name", request.name()));
  RETURN_IF_ERROR(CheckAway(host));
  HostEntry& entry = hosts_.at(host);
  entry.known.secret_hash.clear();
  Persist({HostRecord(host, entry.known)}, [] {});
  Warn(absl::StrCat("host ", host, " was reset: the next worker of that name is taken for it"));
  return google::protobuf::Empty();
}

}  // namespace remesh
