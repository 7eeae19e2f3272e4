// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace remesh::server {

// The text that --check-journal prints for a sound journal, one "key: value" a line: whose journal
// it is, its position and its contents. Errors: see CheckJournal(); also DATA_LOSS
// (JOURNAL_CORRUPT) for rows that this program does not understand.
absl::StatusOr<std::string> DescribeJournal(const std::string& path);

}  // namespace remesh::server
