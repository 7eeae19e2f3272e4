// SPDX-License-Identifier: Apache-2.0
#include "server/controller/leadership/leadership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "server/controller/values/journal_past.h"

namespace remesh::server {
namespace {

constexpr uint64_t kEpochJumpMax = uint64_t{1} << 32;
constexpr uint64_t kEpochMax = uint64_t{1} << 63;
// A journal is replaced by an older one a few times in its life.
constexpr size_t kLostMax = 1000;

}  // namespace

Leadership::Leadership(JournalPast past, uint64_t epoch, std::set<std::string> lost,
                       const JournalQueue& journal)
    : past_(std::move(past)),
      journal_(journal),
      epoch_(epoch + 1),
      highest_epoch_(epoch_),
      lost_(std::move(lost)) {}

void Leadership::Begin(Outbox& out) const { out.Persist({EpochRecord(epoch_)}, LeadershipBegun()); }

void Leadership::Adopt(uint64_t epoch) { epoch_ = std::max(epoch_, epoch); }

absl::Status Leadership::CheckPosition(const v1::JournalPosition& position) const {
  const uint64_t durable = journal_.durable();
  if (position.leadership() == past_.leadership && position.sequence() > durable) {
    return InvalidField(
        "position.sequence", absl::StrCat(position.sequence()),
        absl::StrCat("must be at most ", durable,
                     ", the last transaction of this leadership (unless this server's process was "
                     "restored from a snapshot: then restart it)"));
  }
  const bool adds = past_.accepts_older && HasGoneBack(past_, durable, lost_, position);
  if (!adds || lost_.size() < kLostMax) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("position.leadership: value \"", position.leadership(),
                                "\" would be one more than the ", kLostMax, " that were given up"),
                   {.reason = "TOO_MANY_LEADERSHIPS", .metadata = {{"field", "leadership"}}});
}

absl::Status Leadership::RaiseEpoch(const v1::Register& registration,
                                    std::vector<Record>& records) {
  const uint64_t theirs = registration.highest_epoch();
  const bool ours = registration.position().leadership() == past_.leadership;
  if (theirs < epoch_ || (theirs == epoch_ && ours)) return absl::OkStatus();
  // Each leadership adds 1, so a larger jump would only use up numbers.
  if (theirs > kEpochMax || theirs > highest_epoch_ + kEpochJumpMax) {
    return InvalidField("highest_epoch", absl::StrCat(theirs),
                        absl::StrCat("must be at most 2^32 above ours, ", epoch_));
  }
  highest_epoch_ = std::max(highest_epoch_, theirs + 1);
  records.push_back(EpochRecord(highest_epoch_));
  return absl::OkStatus();
}

bool Leadership::HasGoneBackFor(const v1::Register& registration) const {
  return HasGoneBack(past_, journal_.durable(), lost_, registration.position());
}

bool Leadership::OnProvenHost(const v1::Register& registration, std::vector<Record>& records,
                              Outbox& out) {
  if (!HasGoneBackFor(registration)) return !behind();
  const v1::JournalPosition& position = registration.position();
  const std::string what = absl::StrCat(
      "the worker of host ", registration.host(), " knows of a later journal than this one (",
      "leadership ", position.leadership(), ", transaction ", position.sequence(), ")");
  if (past_.accepts_older && position.leadership() != past_.leadership) {
    lost_.insert(position.leadership());
    records.push_back(LostLeadershipRecord(position.leadership()));
    out.Warn(
        absl::StrCat(what, ": what it says beyond ours is lost, as --accept-older-journal wants"));
    return !behind();
  }
  if (behind_.insert(registration.host()).second) {
    out.Warn(absl::StrCat(what,
                          ": the journal has gone back in time, nothing is decided any more; "
                          "restore it, or start with --accept-older-journal=",
                          past_.journal_uid));
  }
  return false;
}

absl::Status Leadership::CheckMayChange() const {
  if (journal_lost()) return lost_files_;
  if (!behind()) return absl::OkStatus();
  const std::string hosts = absl::StrJoin(behind_, ", ");
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("the journal has gone back in time, as the workers of ", hosts,
                   " know: nothing is decided until it is restored, or the server is started with "
                   "--accept-older-journal=",
                   past_.journal_uid),
      {.reason = "JOURNAL_BEHIND", .metadata = {{"hosts", hosts}, {"journal", past_.journal_uid}}});
}

void Leadership::Sign(v1::AttachResponse& command) const {
  command.set_epoch(epoch_);
  if (behind()) return;  // the worker must keep the position that proves it
  command.mutable_position()->set_cluster_uid(past_.cluster_uid);
  command.mutable_position()->set_leadership(past_.leadership);
  command.mutable_position()->set_sequence(journal_.durable());
}

}  // namespace remesh::server
