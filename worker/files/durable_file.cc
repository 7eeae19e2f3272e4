// SPDX-License-Identifier: Apache-2.0
#include "worker/files/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/own_file.h"
#include "base/status_macros.h"
#include "worker/files/buffer_file.h"

namespace remesh::worker {
namespace {

struct Header {
  uint64_t magic = 0x316c62617275'6472;
  uint64_t bytes = 0;
  uint64_t digest = 0;
};

constexpr mode_t kMode = 0600;  // only the worker may read what it remembers, secrets included

// The second spare is for a `path` that does not exist yet.
std::string SparePath(const std::string& path, int index) {
  return absl::StrCat(path, ".spare", index);
}

bool IsSpare(const std::string& path) {
  return path.ends_with(".spare0") || path.ends_with(".spare1");
}

// Creates the file at `path`, or extends it if it is too short.
absl::Status Reserve(const std::string& path, int64_t bytes) {
  ASSIGN_OR_RETURN(const Fd fd, OpenOwnFile(path, O_WRONLY | O_CREAT, kMode));
  fchmod(fd.get(), kMode);  // an earlier version may have made the file
  const int error = posix_fallocate(fd.get(), 0, bytes);
  if (error == 0) return absl::OkStatus();
  errno = error;
  return SystemError(absl::StrCat("reserving ", bytes, " bytes"), path);
}

// Opens the file to write into, a spare if there is one, and sets `next` to its path. A spare that
// another user may have put there counts as none.
absl::StatusOr<Fd> OpenNext(const std::string& path, std::string& next) {
  for (int i : {1, 0}) {
    next = SparePath(path, i);
    absl::StatusOr<Fd> spare = OpenOwnFile(next, O_WRONLY);
    if (spare.ok()) return spare;
  }
  next = path + ".new";
  unlink(next.c_str());
  return OpenOwnFile(next, O_WRONLY | O_CREAT | O_EXCL, kMode);
}

// Renames `next` to `path`. If `next` was a spare, the old file becomes the next spare.
bool PutInPlace(const std::string& next, const std::string& path) {
  if (IsSpare(next) &&
      renameat2(AT_FDCWD, next.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    return true;
  }
  return std::rename(next.c_str(), path.c_str()) == 0;
}

bool WriteAll(int fd, const std::string& data) {
  for (size_t done = 0; done < data.size();) {
    const ssize_t n = write(fd, data.data() + done, data.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  std::string data;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("read", path);
    if (n == 0) return data;
    data.append(buffer, static_cast<size_t>(n));
  }
}

// Makes the new name durable, too. Does nothing if the folder cannot be opened.
void SyncFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

absl::Status Corrupt(const std::string& path, const char* why) {
  return MakeError(absl::StatusCode::kDataLoss, absl::StrCat(path, " is corrupt: ", why),
                   {"CORRUPT_FILE", {{"path", path}, {"why", why}}});
}

}  // namespace

absl::Status ReserveWrites(const std::string& path, int64_t bytes) {
  const int64_t file_bytes = bytes + int64_t{sizeof(Header)};
  RETURN_IF_ERROR(Reserve(SparePath(path, 0), file_bytes));
  // Zeros behind the message of an existing file do not change its content.
  struct stat info;
  const bool exists = lstat(path.c_str(), &info) == 0;
  return Reserve(exists ? path : SparePath(path, 1), file_bytes);
}

absl::Status WriteDurably(const std::string& path, const google::protobuf::MessageLite& message) {
  const std::string body = message.SerializeAsString();
  const Header header{.bytes = body.size(), .digest = XXH3_64bits(body.data(), body.size())};
  std::string data(reinterpret_cast<const char*>(&header), sizeof(header));
  data += body;
  std::string next;
  ASSIGN_OR_RETURN(Fd fd, OpenNext(path, next));
  const bool written = WriteAll(fd.get(), data) && fsync(fd.get()) == 0;
  const absl::Status status = written ? absl::OkStatus() : SystemError("write", next);
  fd.Reset();
  if (!status.ok()) {
    if (!IsSpare(next)) unlink(next.c_str());
    return status;
  }
  if (!PutInPlace(next, path)) return SystemError("rename", next);
  SyncFolderOf(path);
  return absl::OkStatus();
}

absl::Status ReadDurable(const std::string& path, google::protobuf::MessageLite& message) {
  ASSIGN_OR_RETURN(const Fd fd, OpenOwnFile(path, O_RDONLY));
  ASSIGN_OR_RETURN(const std::string data, ReadAll(fd.get(), path));
  Header header;
  if (data.size() < sizeof(header)) return Corrupt(path, "too short");
  std::memcpy(&header, data.data(), sizeof(header));
  const size_t bytes = header.bytes;
  if (header.magic != Header().magic) return Corrupt(path, "another kind of file");
  if (bytes > data.size() - sizeof(header)) return Corrupt(path, "cut short");
  if (XXH3_64bits(data.data() + sizeof(header), bytes) != header.digest) {
    return Corrupt(path, "its digest differs");
  }
  if (bytes > 0x7fffffff ||
      !message.ParseFromArray(data.data() + sizeof(header), static_cast<int>(bytes))) {
    return Corrupt(path, "not the message it should be");
  }
  return absl::OkStatus();
}

}  // namespace remesh::worker
