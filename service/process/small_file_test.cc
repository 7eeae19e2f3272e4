// SPDX-License-Identifier: Apache-2.0
#include "service/process/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace remesh::service {
namespace {

TEST(SmallFileTest, OnlyFilesOfLittleLengthAreRead) {
  const std::string folder = testing::TempDir() + "/small_file";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const auto write = [&](const std::string& name, size_t bytes) {
    std::ofstream(folder + name) << std::string(bytes, 'x');
    return folder + name;
  };
  const std::string most = write("/most", kSmallFileBytesMax);
  EXPECT_EQ(ReadSmallFile(most).value().size(), kSmallFileBytesMax);
  std::filesystem::create_symlink("most", folder + "/link");  // as Kubernetes mounts them
  EXPECT_EQ(ReadSmallFile(folder + "/link").value().size(), kSmallFileBytesMax);
  EXPECT_EQ(ReadSmallFile(write("/empty", 0)).value(), "");
  EXPECT_EQ(ReadSmallFile(write("/long", kSmallFileBytesMax + 1)).status().message(),
            "is longer than 16777216 bytes");
  EXPECT_EQ(ReadSmallFile("/dev/zero").status().message(), "is a pipe or a device, not a file");
  EXPECT_EQ(ReadSmallFile(folder).status().message(), "is a directory, not a file");
  EXPECT_EQ(ReadSmallFile(folder + "/none").status().message(),
            "cannot be read: No such file or directory");
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadSmallFile(folder + "/pipe").status().message(),
            "is a pipe or a device, not a file");  // and its writer was not waited for
}

}  // namespace
}  // namespace remesh::service
