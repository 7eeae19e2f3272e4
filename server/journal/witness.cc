// SPDX-License-Identifier: Apache-2.0
#include "server/journal/witness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "service/log/log.h"

namespace remesh::server {
namespace {

// Whether the journal has everything up to the witness's position.
bool Knows(const JournalContents& journal, const JournalHead& witness) {
  const auto& all = journal.leaderships;
  const auto theirs = std::find_if(all.begin(), all.end(), [&](const LeadershipRow& leadership) {
    return leadership.id == witness.leadership;
  });
  if (witness.journal_uid != journal.head.journal_uid || theirs == all.end()) return false;
  // The sequence number alone is not enough: a journal that forked counts on.
  const uint64_t last = theirs + 1 == all.end() ? journal.head.sequence : (theirs + 1)->first - 1;
  return witness.sequence <= last;
}

std::string Describe(const std::string& journal_uid, uint64_t sequence) {
  return absl::StrCat("transaction ", sequence, " of journal ", journal_uid);
}

absl::Status Behind(const std::string& path, const std::string& message, const HeadRow& journal,
                    const JournalHead& witness) {
  return MakeError(absl::StatusCode::kFailedPrecondition, message,
                   {.reason = "JOURNAL_BEHIND",
                    .metadata = {{"path", path},
                                 {"journal_uid", journal.journal_uid},
                                 {"sequence", absl::StrCat(journal.sequence)},
                                 {"head_journal_uid", witness.journal_uid},
                                 {"head_sequence", absl::StrCat(witness.sequence)}}});
}

absl::Status WentBack(const std::string& path, const HeadRow& head, const JournalHead& seen) {
  return Behind(path,
                absl::StrCat("journal ", path, " went back in time: it ends at ",
                             Describe(head.journal_uid, head.sequence), ", but ", path,
                             ".head knows ", Describe(seen.journal_uid, seen.sequence),
                             "; bring back the newest copy, or go on without what this one lacks: "
                             "accept_older_journal: ",
                             head.journal_uid),
                head, seen);
}

absl::Status DamagedHead(const std::string& path, const HeadRow& head, const absl::Status& status) {
  return MakeError(
      status.code(),
      absl::StrCat(status.message(), ", so it is not known whether ", path,
                   " is the newest: if it is, remove the head; if it was restored from a copy, "
                   "accept_older_journal: ",
                   head.journal_uid),
      GetErrorInfo(status));
}

}  // namespace

absl::Status CheckWitness(const std::string& path, const JournalContents& contents,
                          const Witness& witness, bool accepted) {
  const bool damaged = absl::IsFailedPrecondition(witness.status());
  if (!witness.ok() && !damaged) return witness.status();
  if (accepted || (!damaged && !witness->has_value())) return absl::OkStatus();
  if (damaged) return DamagedHead(path, contents.head, witness.status());
  const JournalHead& seen = **witness;
  if (!Knows(contents, seen)) return WentBack(path, contents.head, seen);
  if (seen.sequence + 1 < contents.head.sequence) {
    service::LogWarning(
        "the journal's head is older than the journal; it is written again",
        {{"path", path}, {"head", seen.sequence}, {"journal", contents.head.sequence}});
  }
  return absl::OkStatus();
}

absl::Status CheckNoWitness(const std::string& path, const Witness& witness) {
  if (!witness.ok() && !absl::IsFailedPrecondition(witness.status())) return witness.status();
  if (witness.ok() && !witness->has_value()) return absl::OkStatus();
  const JournalHead seen = witness.ok() ? **witness : JournalHead();
  return Behind(path,
                absl::StrCat("journal ", path, " is not there or empty, but ", path, ".head knows ",
                             Describe(seen.journal_uid, seen.sequence),
                             "; bring back the newest copy; to start with an empty journal, "
                             "remove ",
                             path, ".head as well"),
                {}, seen);
}

absl::Status CheckAcceptOlder(const std::string& path, const std::string& journal_uid,
                              const std::string& accept_older) {
  if (accept_older.empty() || accept_older == journal_uid) return absl::OkStatus();
  return InvalidField("accept_older_journal", accept_older,
                      journal_uid.empty() ? absl::StrCat("there is no journal ", path)
                                          : absl::StrCat("is not the uid of journal ", path,
                                                         ", which is ", journal_uid));
}

}  // namespace remesh::server
