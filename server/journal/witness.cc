// SPDX-License-Identifier: Apache-2.0
#include "server/journal/witness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "service/log.h"

namespace remesh {
namespace {

// How the journal went back; empty when it did not.
std::string WentBack(const JournalContents& contents, const JournalHead& witness) {
  const auto& all = contents.leaderships;
  if (witness.journal_uid != contents.head.journal_uid) {
    return absl::StrCat("it belongs to another journal, ", witness.journal_uid);
  }
  const auto known = std::find_if(all.begin(), all.end(), [&](const LeadershipRow& leadership) {
    return leadership.id == witness.leadership;
  });
  if (known == all.end()) {
    return absl::StrCat("it knows a later leadership and transaction ", witness.sequence);
  }
  const bool ended = known + 1 != all.end() && witness.sequence >= (known + 1)->first;
  if (!ended && witness.sequence <= contents.head.sequence) return "";
  return absl::StrCat("it knows transaction ", witness.sequence, " of a leadership of which the ",
                      "journal has none after ",
                      ended ? (known + 1)->first - 1 : contents.head.sequence);
}

absl::Status Behind(const std::string& path, const JournalHead& journal, const JournalHead& witness,
                    const std::string& how, const std::string& way_out) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("journal ", path, " (uid ", journal.journal_uid, ", last transaction ",
                   journal.sequence, ") is behind ", path, ".head: ", how, "; ", way_out),
      {.reason = "JOURNAL_BEHIND",
       .metadata = {{"path", path},
                    {"journal_uid", journal.journal_uid},
                    {"sequence", absl::StrCat(journal.sequence)},
                    {"head_journal_uid", witness.journal_uid},
                    {"head_sequence", absl::StrCat(witness.sequence)}}});
}

absl::Status WithWayOut(const absl::Status& status, const std::string& way_out) {
  return MakeError(status.code(), absl::StrCat(status.message(), way_out), GetErrorInfo(status));
}

}  // namespace

absl::Status CheckWitness(const std::string& path, const JournalContents& contents,
                          const Witness& witness, bool accepted) {
  const HeadRow& head = contents.head;
  const std::string accept = absl::StrCat("accept_older_journal: ", head.journal_uid);
  if (absl::IsFailedPrecondition(witness.status())) {
    if (accepted) return absl::OkStatus();
    return WithWayOut(witness.status(),
                      absl::StrCat(", so that nobody knows whether ", path,
                                   " is the newest; if it is, remove the head; if it was restored "
                                   "from a copy, start with ",
                                   accept));
  }
  if (!witness.ok()) return witness.status();
  if (!witness->has_value()) return absl::OkStatus();
  const std::string how = WentBack(contents, **witness);
  if (how.empty()) {
    if ((*witness)->sequence + 1 < head.sequence) {
      LogWarning("the journal's head is older than the journal; it is written anew",
                 {{"path", path}, {"head", (*witness)->sequence}, {"journal", head.sequence}});
    }
    return absl::OkStatus();
  }
  if (accepted) return absl::OkStatus();
  return Behind(
      path, {head.journal_uid, head.leadership, head.sequence}, **witness, how,
      absl::StrCat("bring back the newest copy, or go on without what this one lacks: ", accept));
}

absl::Status CheckNoWitness(const std::string& path, const Witness& witness) {
  if (!witness.ok() && !absl::IsFailedPrecondition(witness.status())) return witness.status();
  if (witness.ok() && !witness->has_value()) return absl::OkStatus();
  const JournalHead seen = witness.ok() ? **witness : JournalHead();
  return Behind(path, {}, seen, "the journal is not there or empty",
                absl::StrCat("bring back its newest copy; to start with an empty journal, remove ",
                             path, ".head as well"));
}

absl::Status CheckAcceptOlder(const std::string& path, const std::string& journal_uid,
                              const std::string& accept_older) {
  if (accept_older.empty() || accept_older == journal_uid) return absl::OkStatus();
  return InvalidField("accept_older_journal", accept_older,
                      journal_uid.empty() ? absl::StrCat("there is no journal ", path)
                                          : absl::StrCat("is not the uid of journal ", path,
                                                         ", which is ", journal_uid));
}

}  // namespace remesh
