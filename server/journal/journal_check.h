// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "server/journal/rows.h"

namespace remesh::server {

// What a journal that no server has open holds.
struct CheckedJournal {
  JournalContents contents;
  std::map<std::string, std::string> records;
  int64_t bytes = 0;
};

// Reads a journal's file, a backup or one that a server left, and checks every page and row of it,
// and that it is not behind PATH.head where there is one. Changes nothing. NOT_FOUND (NO_JOURNAL)
// without a file that holds anything; other errors of Journal::Open().
absl::StatusOr<CheckedJournal> CheckJournal(const std::string& path);

}  // namespace remesh::server
