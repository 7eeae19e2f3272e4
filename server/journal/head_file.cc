// SPDX-License-Identifier: Apache-2.0
#include "server/journal/head_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/own_file.h"
#include "server/journal/row_digest.h"

namespace remesh::server {
namespace {

constexpr size_t kSlotBytes = 4096;  // no disk sector contains parts of both slots
constexpr char kMagic[] = "remesh-journal-head-1";

// One slot: a line that people can read, then zeros.
std::string SlotOf(const JournalHead& head) {
  const std::string sequence = absl::StrCat(head.sequence);
  const RowDigest digest = RowDigest::Of({kMagic, head.journal_uid, head.leadership, sequence});
  std::string slot = absl::StrCat(kMagic, " ", head.journal_uid, " ", head.leadership, " ",
                                  sequence, " ", digest.Hex(), "\n");
  slot.resize(kSlotBytes, '\0');
  return slot;
}

std::optional<JournalHead> ReadSlot(int fd, int index) {
  std::string slot(kSlotBytes, '\0');
  const auto offset = static_cast<off_t>(index * kSlotBytes);
  if (pread(fd, slot.data(), slot.size(), offset) != static_cast<ssize_t>(kSlotBytes)) return {};
  const std::vector<std::string> words = absl::StrSplit(slot.substr(0, slot.find('\n')), ' ');
  JournalHead head;
  if (words.size() != 5 || !absl::SimpleAtoi(words[3], &head.sequence)) return {};
  head.journal_uid = words[1];
  head.leadership = words[2];
  if (SlotOf(head) != slot) return {};
  return head;
}

bool WriteSlot(int fd, int index, const std::string& slot) {
  const auto offset = static_cast<off_t>(index * kSlotBytes);
  return pwrite(fd, slot.data(), slot.size(), offset) == static_cast<ssize_t>(slot.size());
}

// Syncs the folder, so that the new name is on disk too.
bool SyncFolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int fd = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = fsync(fd) == 0;
  close(fd);
  return synced;
}

}  // namespace

HeadFile::~HeadFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status HeadFile::Error(const char* what) const {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  const std::string why = absl::StrCat(what, ": ", std::strerror(errno));
  return MakeError(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
                   absl::StrCat("journal's head ", path_, ": ", why),
                   {.reason = full ? "JOURNAL_FULL" : "JOURNAL_IO",
                    .metadata = {{"path", path_}, {"error", why}}});
}

absl::Status HeadFile::NotOpened(const absl::Status& why) const {
  const bool full = absl::IsResourceExhausted(why);
  const std::string what(why.message());
  return MakeError(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
                   absl::StrCat("journal's head ", path_, ": ", what),
                   {.reason = full ? "JOURNAL_FULL" : "JOURNAL_IO",
                    .metadata = {{"path", path_}, {"error", what}}});
}

absl::StatusOr<std::optional<JournalHead>> HeadFile::Read() {
  absl::StatusOr<Fd> opened = OpenOwnFile(path_, O_RDWR);
  if (absl::IsNotFound(opened.status())) return std::nullopt;
  if (!opened.ok()) return NotOpened(opened.status());
  fd_ = opened->Release();
  const std::array slots = {ReadSlot(fd_, 0), ReadSlot(fd_, 1)};
  if (!slots[0] && !slots[1]) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("the journal's head ", path_, " is damaged"),
                     {.reason = "JOURNAL_HEAD_DAMAGED", .metadata = {{"path", path_}}});
  }
  const bool second = slots[1] && (!slots[0] || slots[0]->sequence < slots[1]->sequence);
  next_slot_ = second ? 0 : 1;
  return slots[second ? 1 : 0];
}

absl::Status HeadFile::Create(const JournalHead& head) {
  const std::string fresh = path_ + ".new";
  unlink(fresh.c_str());
  absl::StatusOr<Fd> made = OpenOwnFile(fresh, O_RDWR | O_CREAT | O_EXCL, 0640);
  if (!made.ok()) return NotOpened(made.status());
  fd_ = made->Release();
  const bool written = WriteSlot(fd_, 0, SlotOf(head)) &&
                       WriteSlot(fd_, 1, std::string(kSlotBytes, '\0')) && fsync(fd_) == 0 &&
                       std::rename(fresh.c_str(), path_.c_str()) == 0 && SyncFolderOf(path_);
  if (written) return absl::OkStatus();
  const absl::Status status = Error("create");
  close(std::exchange(fd_, -1));
  unlink(fresh.c_str());
  return status;
}

absl::Status HeadFile::Write(const JournalHead& head) {
  if (fd_ < 0) {
    next_slot_ = 1;
    return Create(head);
  }
  if (!WriteSlot(fd_, next_slot_, SlotOf(head)) || fdatasync(fd_) != 0) return Error("write");
  next_slot_ = 1 - next_slot_;
  return absl::OkStatus();
}

}  // namespace remesh::server
