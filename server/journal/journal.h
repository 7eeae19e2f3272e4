// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/controller/action.h"

struct sqlite3;
struct sqlite3_stmt;

namespace remesh {

// A SQLite file of keys and bytes, written synchronously (WAL, synchronous=FULL). One process at a
// time. Not thread-safe.
class Journal {
 public:
  // Opens or creates the file and checks every page of it. DATA_LOSS (JOURNAL_CORRUPT) when
  // damaged, FAILED_PRECONDITION (JOURNAL_VERSION, JOURNAL_LOCKED) when written by a newer program
  // or open elsewhere, UNAVAILABLE (JOURNAL_IO) otherwise.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(const std::string& path);
  ~Journal();

  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  absl::StatusOr<std::map<std::string, std::string>> ReadAll();

  // All records, in order, in one transaction: on disk when it returns OK. RESOURCE_EXHAUSTED
  // (JOURNAL_FULL) or UNAVAILABLE otherwise: nothing is.
  absl::Status Write(const std::vector<Record>& records);

 private:
  Journal(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}

  absl::Status Prepare();
  absl::Status CheckIntegrity();
  absl::Status CheckVersion();
  absl::Status WriteRecord(const Record& record);
  absl::Status Execute(const char* sql);
  absl::StatusOr<std::string> QueryText(const char* sql);
  absl::Status Error(int code) const;

  const std::string path_;
  sqlite3* database_;
  sqlite3_stmt* put_ = nullptr;
  sqlite3_stmt* remove_ = nullptr;
};

}  // namespace remesh
