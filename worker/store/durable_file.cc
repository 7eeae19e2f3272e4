// SPDX-License-Identifier: Apache-2.0
#include "worker/store/durable_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/store/buffer_file.h"

namespace remesh {
namespace {

struct Header {
  uint64_t magic = 0x316c62617275'6472;
  uint64_t bytes = 0;
  uint64_t digest = 0;
};

std::string SparePath(const std::string& path, int index) {
  return absl::StrCat(path, ".spare", index);
}

// The file to write into: a spare one where there is one.
std::string TakeSpare(const std::string& path) {
  for (int i = 0; i < 8; ++i) {
    if (access(SparePath(path, i).c_str(), W_OK) == 0) return SparePath(path, i);
  }
  return path + ".new";
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

// So that the new name is on disk too, where there is one.
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

absl::Status ReserveWrites(const std::string& path, int64_t bytes, int count) {
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(CreateReservedFile(SparePath(path, i), bytes + int64_t{sizeof(Header)}));
  }
  return absl::OkStatus();
}

absl::Status WriteDurably(const std::string& path, const google::protobuf::MessageLite& message) {
  const std::string body = message.SerializeAsString();
  const Header header{.bytes = body.size(), .digest = XXH3_64bits(body.data(), body.size())};
  std::string data(reinterpret_cast<const char*>(&header), sizeof(header));
  data += body;
  const std::string next = TakeSpare(path);
  const int fd = open(next.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) return SystemError("open", next);
  const bool written =
      WriteAll(fd, data) && ftruncate(fd, static_cast<off_t>(data.size())) == 0 && fsync(fd) == 0;
  const absl::Status status = written ? absl::OkStatus() : SystemError("write", next);
  close(fd);
  if (!status.ok()) {
    unlink(next.c_str());
    return status;
  }
  if (std::rename(next.c_str(), path.c_str()) != 0) return SystemError("rename", next);
  SyncFolderOf(path);
  return absl::OkStatus();
}

absl::Status ReadDurable(const std::string& path, google::protobuf::MessageLite& message) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, " does not exist"));
  const std::string data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Header header;
  if (data.size() < sizeof(header)) return Corrupt(path, "too short");
  std::memcpy(&header, data.data(), sizeof(header));
  const size_t bytes = data.size() - sizeof(header);
  if (header.magic != Header().magic) return Corrupt(path, "another kind of file");
  if (header.bytes != bytes) return Corrupt(path, "cut short");
  if (XXH3_64bits(data.data() + sizeof(header), bytes) != header.digest) {
    return Corrupt(path, "its digest differs");
  }
  if (bytes > 0x7fffffff ||
      !message.ParseFromArray(data.data() + sizeof(header), static_cast<int>(bytes))) {
    return Corrupt(path, "not the message it should be");
  }
  return absl::OkStatus();
}

}  // namespace remesh
