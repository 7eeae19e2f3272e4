// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remesh::server {

// The position that a journal has reached.
struct JournalHead {
  std::string journal_uid;
  std::string leadership;
  uint64_t sequence = 0;

  friend bool operator==(const JournalHead&, const JournalHead&) = default;
};

// The witness beside a journal: a small file with the journal's position, written after each
// transaction and before anything depends on that transaction. A journal at an earlier position has
// lost transactions. The file has two slots, each of one line with a digest, which are written in
// turn, so that a torn write leaves the previous slot. Once the file exists, it needs no more room
// on the disk.
class HeadFile {
 public:
  explicit HeadFile(std::string path) : path_(std::move(path)) {}
  ~HeadFile();

  HeadFile(const HeadFile&) = delete;
  HeadFile& operator=(const HeadFile&) = delete;

  // Returns the newer slot; nullopt when there is no file. FAILED_PRECONDITION
  // (JOURNAL_HEAD_DAMAGED) when neither slot can be read, UNAVAILABLE (JOURNAL_IO). Call it once,
  // before Write().
  absl::StatusOr<std::optional<JournalHead>> Read();

  // The head is on disk when this returns OK. RESOURCE_EXHAUSTED (JOURNAL_FULL) when there is
  // neither a file yet nor room for one; UNAVAILABLE (JOURNAL_IO).
  absl::Status Write(const JournalHead& head);

  const std::string& path() const { return path_; }

 private:
  absl::Status Create(const JournalHead& head);
  absl::Status Error(const char* what) const;
  absl::Status NotOpened(const absl::Status& why) const;

  const std::string path_;
  int fd_ = -1;
  int next_slot_ = 0;
};

}  // namespace remesh::server
