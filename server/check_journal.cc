// SPDX-License-Identifier: Apache-2.0
#include "server/check_journal.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/controller/values/records.h"
#include "server/journal/journal_check.h"
#include "server/questions/place_state.h"

namespace remesh::server {

absl::StatusOr<std::string> DescribeJournal(const std::string& path) {
  ASSIGN_OR_RETURN(const CheckedJournal journal, CheckJournal(path));
  ASSIGN_OR_RETURN(const Restored restored,
                   ReadRecords(journal.records, [](const v1::StateSpec& spec) {
                     return PlaceState(spec, nullptr);
                   }));
  const HeadRow& head = journal.contents.head;
  const auto& leaderships = journal.contents.leaderships;
  return absl::StrCat("journal: ", head.journal_uid, "\ncluster: ", head.cluster_uid,
                      "\nsequence: ", head.sequence,
                      "\nled_since: ", leaderships.empty() ? "" : leaderships.back().started,
                      "\nrows: ", journal.records.size(), "\nstates: ", restored.states.size(),
                      "\nexecutions: ", restored.executions.size(),
                      "\nhosts: ", restored.hosts.size(), "\nbytes: ", journal.bytes, "\n");
}

}  // namespace remesh::server
