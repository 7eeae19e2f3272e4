// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_test.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "server/journal/journal_writer.h"

namespace remesh::server {
namespace {

constexpr char kCluster[] = "123e4567-e89b-42d3-a456-426614174000";
constexpr char kOtherCluster[] = "00000000-e89b-42d3-a456-426614174000";

class JournalTest : public JournalFiles {
 protected:
  void Overwrite(std::streamoff offset, size_t bytes) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file << std::string(bytes, '\x5a');
  }
  void Execute(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sql;
    sqlite3_close(database);
  }
  int Version() {
    int version = -1;
    const auto database = Database::Open(path_, {.name = "journal", .reason_prefix = "JOURNAL"});
    EXPECT_TRUE(database.ok()) << database.status();
    EXPECT_TRUE((*database)
                    ->Query("PRAGMA user_version", {},
                            [&](sqlite3_stmt* row) {
                              version = static_cast<int>(Database::Number(row, 0));
                            })
                    .ok());
    return version;
  }
};

std::vector<Record> ManyRecords(int count) {
  std::vector<Record> records;
  for (int i = 0; i < count; ++i)
    records.push_back({"state/" + std::to_string(i), std::string(500, 'x')});
  return records;
}

TEST_F(JournalTest, WhatIsWrittenIsThereWhenOpenedAgain) {
  {
    auto journal = MustOpen();
    uint64_t sequence = journal->past().sequence;
    Add(*journal, sequence, {{"a", "1"}, {"b", std::string("\0\xff", 2)}, {"empty", ""}});
    Add(*journal, sequence, {{"a", "2"}, {"gone", "x"}, {"gone", std::nullopt}});
  }
  const Rows expected = {{"a", "2"}, {"b", std::string("\0\xff", 2)}, {"empty", ""}};
  EXPECT_EQ(*MustOpen()->ReadAll(), expected);
}

// Regression: with a umask of 022 every user of the machine could read the names of states and the
// hashes of secrets.
TEST_F(JournalTest, OthersMayNotReadIt) {
  const mode_t before = umask(022);
  auto journal = MustOpen();
  uint64_t sequence = journal->past().sequence;
  Add(*journal, sequence, {{"a", "1"}});
  umask(before);
  int files = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path())) {
    struct stat info {};
    ASSERT_EQ(stat(file.path().c_str(), &info), 0);
    if (!S_ISREG(info.st_mode)) continue;
    EXPECT_EQ(info.st_mode & 0007, 0u) << file.path();
    ++files;
  }
  EXPECT_GE(files, 2);
}

TEST_F(JournalTest, IsOpenOnlyOnce) {
  auto first = MustOpen();
  EXPECT_EQ(ReasonOf(), "JOURNAL_LOCKED");
}

TEST_F(JournalTest, ADamagedPageIsFoundAtTheStart) {
  {
    auto journal = MustOpen();
    uint64_t sequence = journal->past().sequence;
    Add(*journal, sequence, ManyRecords(200));
  }
  Overwrite(5 * 4096 + 1, 2000);
  const absl::Status status = Open().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).reason, "JOURNAL_CORRUPT");
}

TEST_F(JournalTest, AFileThatIsNoJournalIsRefused) {
  WriteFile(path_, std::string(10000, 'q'));
  EXPECT_EQ(ReasonOf(), "JOURNAL_CORRUPT");
}

TEST_F(JournalTest, ANewerVersionIsRefused) {
  MustOpen();
  Overwrite(60, 4);  // user_version
  EXPECT_EQ(ReasonOf(), "JOURNAL_VERSION");
}

TEST_F(JournalTest, AnOldVersionIsReadAndRaised) {
  {
    auto journal = MustOpen();
    uint64_t sequence = journal->past().sequence;
    Add(*journal, sequence, {{"a", "1"}});
  }
  Execute("PRAGMA user_version=2");
  EXPECT_EQ(*MustOpen()->ReadAll(), (Rows{{"a", "1"}}));
  EXPECT_EQ(Version(), kJournalVersion) << "an older program would read what it does not know";
}

TEST_F(JournalTest, Version1IsRefusedAndStaysAsItIs) {
  Execute(
      "PRAGMA journal_mode=WAL; CREATE TABLE records(key TEXT PRIMARY KEY, bytes BLOB NOT NULL) "
      "WITHOUT ROWID; INSERT INTO records VALUES('epoch', x'01'); PRAGMA user_version=1");
  const Files before = Take();
  const absl::Status status = Open().status();
  EXPECT_EQ(GetErrorInfo(status).reason, "JOURNAL_VERSION");
  EXPECT_EQ(GetErrorInfo(status).metadata.at("version"), "1");
  EXPECT_NE(status.message().find("earlier releases"), std::string::npos) << status;
  EXPECT_TRUE(Take() == before);
}

TEST_F(JournalTest, AFolderThatIsNotThereIsNamed) {
  const absl::Status status = Journal::Open("/nowhere/at/all/journal.db", {}).status();
  EXPECT_EQ(GetErrorInfo(status).reason, "JOURNAL_IO");
  EXPECT_EQ(GetErrorInfo(status).metadata.at("path"), "/nowhere/at/all/journal.db");
}

// Like a copy that was restored as root. SQLite's own error is only "disk I/O error".
TEST_F(JournalTest, AFileThatMayNotBeWrittenIsAnErrorThatSaysSo) {
  MustOpen();
  std::filesystem::permissions(directory_, std::filesystem::perms(0755));
  std::filesystem::permissions(path_, std::filesystem::perms(0444));
  const uid_t user = geteuid();
  const uid_t other = user == 0 ? 65534 : user;  // root may write everything
  ASSERT_EQ(seteuid(other), 0);
  const absl::Status status = Open().status();
  ASSERT_EQ(seteuid(user), 0);
  EXPECT_EQ(GetErrorInfo(status).reason, "JOURNAL_IO") << status;
  EXPECT_EQ(status.message(),
            absl::StrCat("journal ", path_, ": user ", other, " may not write the file"));
}

TEST_F(JournalTest, EveryLifeIsALeadershipThatEndsWhereTheNextBegins) {
  const JournalPast first = MustOpen()->past();
  EXPECT_EQ(first.leadership.size(), 32u);
  EXPECT_EQ(first.sequence, 1u);
  EXPECT_TRUE(first.ends.empty());
  uint64_t last = 0;
  const JournalPast second = [&] {
    auto journal = MustOpen();
    last = AddMany(*journal, 5);
    return journal->past();
  }();
  EXPECT_EQ(second.sequence, 2u);
  EXPECT_EQ(second.ends, (std::map<std::string, uint64_t>{{first.leadership, 2}}));
  const JournalPast third = MustOpen()->past();
  EXPECT_EQ(third.sequence, last + 1);
  EXPECT_EQ(third.ends, (std::map<std::string, uint64_t>{{first.leadership, 2},
                                                         {second.leadership, last + 1}}));
  EXPECT_EQ(third.journal_uid, first.journal_uid);
  EXPECT_EQ(third.cluster_uid, first.cluster_uid);
  EXPECT_NE(third.cluster_uid, third.journal_uid);
}

TEST_F(JournalTest, ANewJournalTakesTheClusterThatItIsGiven) {
  EXPECT_EQ(MustOpen({.cluster_uid = kCluster})->past().cluster_uid, kCluster);
  EXPECT_EQ(MustOpen()->past().cluster_uid, kCluster);
  EXPECT_EQ(MustOpen({.cluster_uid = "123E4567-E89B-42D3-A456-426614174000"})->past().cluster_uid,
            kCluster);
}

TEST_F(JournalTest, AJournalOfAnotherClusterIsRefused) {
  MustOpen({.cluster_uid = kCluster});
  const absl::Status status = Open({.cluster_uid = kOtherCluster}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).reason, "CLUSTER_UID_MISMATCH");
  EXPECT_EQ(GetErrorInfo(status).metadata.at("journal_cluster_uid"), kCluster);
  EXPECT_EQ(GetErrorInfo(status).metadata.at("cluster_uid"), kOtherCluster);
}

TEST_F(JournalTest, AClusterUidThatIsNoUuidIsRefused) {
  for (const char* text :
       {"x", "123e4567-e89b-42d3-a456-42661417400", "prod", "123e4567ee89b-42d3-a456-426614174000",
        "123e4567-e89b-42d3-a456-42661417400g"}) {
    const absl::Status status = Open({.cluster_uid = text}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
    EXPECT_EQ(GetErrorInfo(status).metadata.at("field"), "cluster_uid");
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// `count` more lives that did nothing.
void AddLives(const std::string& path, int count) {
  auto database = JournalDatabase::Open(path);
  ASSERT_TRUE(database.ok()) << database.status();
  ASSERT_TRUE((*database)->Own().ok());
  HeadRow head = (*ReadContents((*database)->sql()))->head;
  ASSERT_TRUE((*database)->sql().Execute("BEGIN IMMEDIATE").ok());
  for (int i = 0; i < count; ++i) {
    const LeadershipRow life{.id = "life" + std::to_string(i), .first = ++head.sequence};
    ASSERT_TRUE(AddLeadership((*database)->sql(), life).ok());
    head.rows ^= life.Digest();
    head.leadership = life.id;
  }
  const auto statement = (*database)->sql().Prepare(kWriteHeadRow);
  ASSERT_TRUE(WriteHeadRow((*database)->sql(), statement->get(), head).ok());
  ASSERT_TRUE((*database)->sql().Execute("COMMIT").ok());
}

TEST_F(JournalTest, TheNewestTenThousandLeadershipsAreKept) {
  const std::string first = MustOpen()->past().leadership;
  AddLives(path_, 9'999);
  JournalPast past = MustOpen()->past();
  EXPECT_EQ(past.ends.size(), 9'999u);  // and ours
  EXPECT_FALSE(past.ends.contains(first));
  EXPECT_EQ(past.ends.at("life0"), 3u);
  past = MustOpen()->past();
  EXPECT_EQ(past.ends.size(), 9'999u);
  EXPECT_FALSE(past.ends.contains("life0"));
}

TEST_F(JournalTest, TheWriterTellsWhatIsOnDiskAndWritesAllBeforeItEnds) {
  uint64_t told = 0;
  bool rose = true;
  {
    auto journal = MustOpen();
    const uint64_t first = journal->past().sequence;
    JournalWriter writer(std::move(journal),
                         {.persisted =
                              [&](uint64_t sequence, bool full) {
                                rose = rose && sequence > told && !full;
                                told = sequence;
                              },
                          .failed = [](absl::Status status) { ADD_FAILURE() << status; }});
    for (uint64_t i = 1; i <= 200; ++i)
      writer.Write({.sequence = first + i, .records = {{"n", std::to_string(i)}}});
  }
  EXPECT_EQ(told, 201u);
  EXPECT_TRUE(rose);
  auto journal = MustOpen();
  EXPECT_EQ(journal->past().sequence, 202u);
  EXPECT_EQ(journal->ReadAll()->at("n"), "200");
}

}  // namespace
}  // namespace remesh::server
