// SPDX-License-Identifier: Apache-2.0
#include "service/process/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fd.h"

namespace remesh::service {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file || fstat(file.get(), &info) != 0)
    return absl::NotFoundError(absl::StrCat("cannot be read: ", std::strerror(errno)));
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError("is a directory, not a file");
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError("is a pipe or a device, not a file");
  std::string text;
  std::vector<char> piece(64 << 10);
  while (text.size() <= kSmallFileBytesMax) {
    const ssize_t count = read(file.get(), piece.data(), piece.size());
    if (count < 0)
      return absl::NotFoundError(absl::StrCat("cannot be read: ", std::strerror(errno)));
    if (count == 0) return text;
    text.append(piece.data(), static_cast<size_t>(count));
  }
  return absl::InvalidArgumentError(absl::StrCat("is longer than ", kSmallFileBytesMax, " bytes"));
}

}  // namespace remesh::service
