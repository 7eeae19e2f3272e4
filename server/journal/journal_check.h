// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "server/journal/rows.h"

namespace remesh::server {

// The contents of a journal that no server has open.
struct CheckedJournal {
  JournalContents contents;
  std::map<std::string, std::string> records;
  int64_t bytes = 0;
};

// Reads the file of a journal, either a backup or one that a server left. Checks every page and row
// of it, and that it is not behind PATH.head if that exists. Changes nothing. NOT_FOUND
// (NO_JOURNAL) when there is no file or it is empty; other errors as of Journal::Open().
absl::StatusOr<CheckedJournal> CheckJournal(const std::string& path);

}  // namespace remesh::server
