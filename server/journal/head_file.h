// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remesh::server {

// How far a journal had come.
struct JournalHead {
  std::string journal_uid;
  std::string leadership;
  uint64_t sequence = 0;

  friend bool operator==(const JournalHead&, const JournalHead&) = default;
};

// The witness beside a journal: a small file that says how far it had come, written after each
// transaction and before anything depends on it. A journal that knows less has lost transactions.
// Two slots of one line with a digest each are written by turns, so that a torn write leaves the
// one before. Takes no room on the disk once it is there.
class HeadFile {
 public:
  explicit HeadFile(std::string path) : path_(std::move(path)) {}
  ~HeadFile();

  HeadFile(const HeadFile&) = delete;
  HeadFile& operator=(const HeadFile&) = delete;

  // The newer slot; nothing when there is no such file. FAILED_PRECONDITION
  // (JOURNAL_HEAD_DAMAGED) when neither can be read, UNAVAILABLE (JOURNAL_IO). Once, before
  // Write().
  absl::StatusOr<std::optional<JournalHead>> Read();

  // On disk when it returns OK. RESOURCE_EXHAUSTED (JOURNAL_FULL) where there is no file yet and no
  // room for one; UNAVAILABLE (JOURNAL_IO).
  absl::Status Write(const JournalHead& head);

  const std::string& path() const { return path_; }

 private:
  absl::Status Create(const JournalHead& head);
  absl::Status Error(const char* what) const;

  const std::string path_;
  int fd_ = -1;
  int next_slot_ = 0;
};

}  // namespace remesh::server
