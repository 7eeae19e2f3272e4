// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace remesh::server {

// What --check-journal prints of a sound journal: whose it is, how far it came and what it holds, a
// "key: value" a line. Errors: see CheckJournal(); DATA_LOSS (JOURNAL_CORRUPT) also for rows that this
// program does not understand.
absl::StatusOr<std::string> DescribeJournal(const std::string& path);

}  // namespace remesh::server
