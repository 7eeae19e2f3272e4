// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "server/journal/journal_writer.h"

namespace remesh {
namespace {

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "remesh-journal-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ / "journal.db";
  }
  ~JournalTest() override { std::filesystem::remove_all(directory_); }

  absl::StatusOr<std::unique_ptr<Journal>> Open() { return Journal::Open(path_.string()); }

  void Overwrite(std::streamoff offset, size_t bytes) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file << std::string(bytes, '\x5a');
  }

  std::filesystem::path directory_, path_;
};

std::vector<Record> ManyRecords(int count) {
  std::vector<Record> records;
  for (int i = 0; i < count; ++i)
    records.push_back({"state/" + std::to_string(i), std::string(500, 'x')});
  return records;
}

TEST_F(JournalTest, WhatIsWrittenIsThereWhenOpenedAgain) {
  {
    auto journal = Open();
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_TRUE(
        (*journal)->Write({{"a", "1"}, {"b", std::string("\0\xff", 2)}, {"empty", ""}}).ok());
    EXPECT_TRUE((*journal)->Write({{"a", "2"}, {"gone", "x"}, {"gone", std::nullopt}}).ok());
  }
  auto journal = Open();
  ASSERT_TRUE(journal.ok()) << journal.status();
  const std::map<std::string, std::string> expected = {
      {"a", "2"}, {"b", std::string("\0\xff", 2)}, {"empty", ""}};
  EXPECT_EQ(*(*journal)->ReadAll(), expected);
}

TEST_F(JournalTest, IsOpenOnlyOnce) {
  auto first = Open();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(GetErrorInfo(Open().status()).reason, "JOURNAL_LOCKED");
}

TEST_F(JournalTest, ADamagedPageIsFoundAtTheStart) {
  ASSERT_TRUE((*Open())->Write(ManyRecords(200)).ok());
  Overwrite(3 * 4096 + 1, 2000);
  const absl::Status status = Open().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).reason, "JOURNAL_CORRUPT");
}

TEST_F(JournalTest, AFileThatIsNoJournalIsRefused) {
  std::ofstream(path_) << std::string(10000, 'q');
  EXPECT_EQ(GetErrorInfo(Open().status()).reason, "JOURNAL_CORRUPT");
}

TEST_F(JournalTest, ANewerVersionIsRefused) {
  ASSERT_TRUE(Open().ok());
  Overwrite(60, 4);  // user_version
  EXPECT_EQ(GetErrorInfo(Open().status()).reason, "JOURNAL_VERSION");
}

TEST_F(JournalTest, AFolderThatIsNotThereIsNamed) {
  const absl::Status status = Journal::Open("/nowhere/at/all/journal.db").status();
  EXPECT_EQ(GetErrorInfo(status).reason, "JOURNAL_IO");
  EXPECT_EQ(GetErrorInfo(status).metadata.at("path"), "/nowhere/at/all/journal.db");
}

TEST_F(JournalTest, TheWriterTellsWhatIsOnDiskAndWritesAllBeforeItEnds) {
  uint64_t told = 0;
  bool rose = true;
  {
    JournalWriter writer(*Open(), {.persisted =
                                       [&](uint64_t sequence) {
                                         rose = rose && sequence > told;
                                         told = sequence;
                                       },
                                   .failed = [](absl::Status status) { ADD_FAILURE() << status; }});
    for (uint64_t i = 1; i <= 200; ++i)
      writer.Write({.sequence = i, .records = {{"n", std::to_string(i)}}});
  }
  EXPECT_EQ(told, 200u);
  EXPECT_TRUE(rose);
  EXPECT_EQ((*(*Open())->ReadAll()).at("n"), "200");
}

}  // namespace
}  // namespace remesh
