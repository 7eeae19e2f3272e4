// SPDX-License-Identifier: Apache-2.0
#include "base/own_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh {
namespace {

namespace fs = std::filesystem;

class OwnFileTest : public testing::Test {
 protected:
  OwnFileTest() {
    std::string pattern = testing::TempDir() + "/remesh_own.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/file";
    std::ofstream(folder_ + "/victim") << "precious";
  }
  ~OwnFileTest() override { fs::remove_all(folder_); }

  std::string ReasonOf(int flags, Links links = Links::kOne) {
    return GetErrorInfo(OpenOwnFile(path_, flags, 0600, links).status()).reason;
  }
  std::string Victim() {
    std::ifstream file(folder_ + "/victim");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string Refusal(const std::string& folder, Writers writers = Writers::kNone) {
    return std::string(CheckOwnFolder("a_setting", folder, folder, writers).message());
  }

  std::string folder_, path_;
};

constexpr int kWays[] = {O_RDONLY, O_RDWR, O_WRONLY | O_CREAT, O_WRONLY | O_CREAT | O_TRUNC};

TEST_F(OwnFileTest, AFileOfThisUserIsOpened) {
  EXPECT_EQ(ReasonOf(O_RDONLY), "FILE_NOT_FOUND");
  const auto made = OpenOwnFile(path_, O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(write(made->get(), "abc", 3), 3);
  EXPECT_TRUE(OpenOwnFile(path_, O_WRONLY | O_TRUNC).ok());
  EXPECT_EQ(fs::file_size(path_), 0u);
}

TEST_F(OwnFileTest, ALinkLeadsNowhere) {
  fs::create_symlink(folder_ + "/victim", path_);
  for (const int flags : kWays) EXPECT_EQ(ReasonOf(flags), "NOT_OWN_FILE") << flags;
  fs::remove(path_);
  fs::create_symlink(folder_ + "/absent", path_);
  for (const int flags : kWays) EXPECT_EQ(ReasonOf(flags), "NOT_OWN_FILE") << flags;
  EXPECT_FALSE(fs::exists(folder_ + "/absent"));
  fs::remove(path_);
  fs::create_hard_link(folder_ + "/victim", path_);
  for (const int flags : kWays) EXPECT_EQ(ReasonOf(flags), "NOT_OWN_FILE") << flags;
  EXPECT_EQ(ReasonOf(O_RDONLY, Links::kAny), "OK");
  EXPECT_EQ(Victim(), "precious");
}

// Regression: the worker's start hung without a line.
TEST_F(OwnFileTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  for (const int flags : kWays) EXPECT_EQ(ReasonOf(flags), "NOT_OWN_FILE") << flags;
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_EQ(ReasonOf(O_RDONLY), "NOT_OWN_FILE");
}

TEST_F(OwnFileTest, AFileOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  std::ofstream(path_) << "theirs";
  ASSERT_EQ(chown(path_.c_str(), 1234, 1234), 0);
  for (const int flags : kWays) EXPECT_EQ(ReasonOf(flags), "NOT_OWN_FILE") << flags;
  EXPECT_EQ(fs::file_size(path_), 6u) << "cut before it was looked at";
}

TEST_F(OwnFileTest, AFolderThatOthersMayWriteIsRefused) {
  for (const mode_t mode : {0700, 0750, 0755, 02750, 01755}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    EXPECT_EQ(Refusal(folder_), "") << std::oct << mode;
  }
  for (const mode_t mode : {0770, 02770, 0757, 0777, 01777}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    const std::string why = Refusal(folder_);
    EXPECT_TRUE(absl::StrContains(why, absl::StrCat("a_setting: value \"", folder_))) << why;
    EXPECT_TRUE(absl::StrContains(why, "chmod g-w,o-w " + folder_)) << why;
  }
  EXPECT_TRUE(absl::StrContains(Refusal(folder_), "mode 1777")) << Refusal(folder_);
}

TEST_F(OwnFileTest, OnlyAStickyFolderOfRootsMayBeShared) {
  EXPECT_EQ(Refusal("/tmp", Writers::kSticky), "");
  EXPECT_NE(Refusal("/tmp", Writers::kNone), "");
  if (geteuid() != 0) GTEST_SKIP() << "only root may give a folder away";
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  EXPECT_EQ(Refusal(folder_, Writers::kSticky), "");
  ASSERT_EQ(chmod(folder_.c_str(), 02770), 0);
  EXPECT_NE(Refusal(folder_, Writers::kSticky), "");
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  ASSERT_EQ(chown(folder_.c_str(), 1234, 1234), 0);
  for (const Writers writers : {Writers::kNone, Writers::kSticky}) {
    EXPECT_TRUE(absl::StrContains(Refusal(folder_, writers), "belongs to user 1234"));
  }
  const std::string link = folder_ + "/link";
  fs::create_symlink("/", link);
  EXPECT_EQ(Refusal(link), "");
  ASSERT_EQ(lchown(link.c_str(), 1234, 1234), 0);
  EXPECT_TRUE(absl::StrContains(Refusal(link), "a symbolic link of user 1234"));
}

TEST_F(OwnFileTest, AFolderThatIsMadeIsNotSharedWhateverTheUmask) {
  const mode_t before = umask(0);
  MakeFolder(folder_ + "/a/b/");
  MakeFolder(folder_ + "/a/b/c");
  umask(before);
  for (const char* made : {"/a", "/a/b", "/a/b/c"}) {
    struct stat info;
    ASSERT_EQ(stat((folder_ + made).c_str(), &info), 0) << made;
    EXPECT_EQ(info.st_mode & 0777, 0755u) << made;
  }
}

}  // namespace
}  // namespace remesh
