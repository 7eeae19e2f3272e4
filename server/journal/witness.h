// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/journal/head_file.h"
#include "server/journal/rows.h"

namespace remesh::server {

// The contents of PATH.head for the journal at PATH: nullopt when the file does not exist, an error
// when it cannot be read.
using Witness = absl::StatusOr<std::optional<JournalHead>>;

// FAILED_PRECONDITION, with the way out: JOURNAL_BEHIND when the journal lacks transactions that
// the witness knows, or when a witness exists but no journal; JOURNAL_HEAD_DAMAGED when that cannot
// be known. `accepted`: the operator accepts both, so they are no errors.
absl::Status CheckWitness(const std::string& path, const JournalContents& contents,
                          const Witness& witness, bool accepted);
absl::Status CheckNoWitness(const std::string& path, const Witness& witness);

// INVALID_ARGUMENT unless `accept_older` is empty or the journal's uid.
absl::Status CheckAcceptOlder(const std::string& path, const std::string& journal_uid,
                              const std::string& accept_older);

}  // namespace remesh::server
