// SPDX-License-Identifier: Apache-2.0
// What happens to a journal whose files are taken away or changed beside the server.
#include <sqlite3.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/journal/journal_backup.h"
#include "server/journal/journal_check.h"
#include "server/journal/journal_test.h"
#include "server/journal/journal_writer.h"

namespace remesh::server {
namespace {

namespace fs = std::filesystem;

class JournalFilesTest : public JournalFiles {
 protected:
  // As `sqlite3 PATH SQL`, with the server stopped.
  void Run(const char* sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }

  void Serve() {
    auto journal = MustOpen();
    sequence_ = journal->past().sequence;
    writer_ = std::make_unique<JournalWriter>(
        std::move(journal),
        JournalWriter::Callbacks{.persisted =
                                     [this](uint64_t sequence, bool) {
                                       absl::MutexLock lock(&mutex_);
                                       persisted_ = sequence;
                                     },
                                 .failed = [](absl::Status s) { ADD_FAILURE() << s; },
                                 .lost =
                                     [this](absl::Status why) {
                                       absl::MutexLock lock(&mutex_);
                                       losses_.push_back(std::move(why));
                                     }});
  }
  void Write(const std::string& key) {
    writer_->Write({.sequence = ++sequence_, .records = {{key, "value"}}});
  }
  // Returns after everything that was asked of the writer before.
  void Drain() {
    const auto copied = writer_->Copy("", [] { return false; });
    EXPECT_TRUE(absl::IsCancelled(copied)) << copied;
  }
  std::vector<absl::Status> losses() {
    absl::MutexLock lock(&mutex_);
    return losses_;
  }
  uint64_t persisted() {
    absl::MutexLock lock(&mutex_);
    return persisted_;
  }

  // The keys of a backup that is taken now.
  std::vector<std::string> KeysOfBackup() {
    JournalBackups backups(path_, *writer_);
    const auto backup = backups.Take([] { return true; });
    EXPECT_TRUE(backup.ok()) << backup.status();
    if (!backup.ok()) return {};
    std::string bytes(static_cast<size_t>(backup->bytes), '\0');
    EXPECT_EQ(pread(backup->file.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
    const std::string saved = (directory_ / "saved.db").string();
    WriteFile(saved, bytes);
    const auto checked = CheckJournal(saved);
    EXPECT_TRUE(checked.ok()) << checked.status();
    std::vector<std::string> keys;
    if (checked.ok()) {
      for (const auto& [key, value] : checked->records) keys.push_back(key);
    }
    return keys;
  }

  absl::Mutex mutex_;
  uint64_t persisted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<absl::Status> losses_ ABSL_GUARDED_BY(mutex_);
  uint64_t sequence_ = 0;
  std::unique_ptr<JournalWriter> writer_;
};

// Regression: the server started, wrote a second head row, and refused its own journal at the next
// start.
TEST_F(JournalFilesTest, AHeadRowWithAnotherKeyIsRefusedAtOnce) {
  for (const char* sql :
       {"UPDATE head SET id = 0",
        "INSERT INTO head SELECT 2, journal_uid, cluster_uid, leadership, sequence, rows, digest "
        "FROM head",
        "UPDATE head SET id = -1"}) {
    for (const char* suffix : {"", "-wal", ".head", ".ballast"}) fs::remove(path_ + suffix);
    { AddMany(*MustOpen(), 3); }
    Run(sql);
    const absl::Status refused = Open().status();
    EXPECT_EQ(GetErrorInfo(refused).reason, "JOURNAL_CORRUPT") << sql << ": " << refused;
    EXPECT_EQ(ReasonOf(), "JOURNAL_CORRUPT") << sql << ", looked at again";
  }
}

// Regression: transactions went into files without a name and were called persisted.
TEST_F(JournalFilesTest, WhatGoesIntoLostFilesIsNeverCalledPersisted) {
  const std::string aside = (directory_ / "aside").string();
  for (const char* suffix : {"", "-wal", ".head"}) {
    for (const char* what : {"deleted", "renamed", "replaced"}) {
      SCOPED_TRACE(absl::StrCat("journal", suffix, " is ", what));
      for (const char* each : {"", "-wal", ".head"}) fs::remove(path_ + each);
      fs::remove(aside);
      losses_.clear();
      Serve();
      Write("before");
      Drain();
      const uint64_t before = persisted();
      EXPECT_EQ(before, sequence_);
      const std::string file = path_ + suffix, bytes = ReadFile(file);
      what == std::string("deleted") ? fs::remove(file) : (fs::rename(file, aside), true);
      if (what == std::string("replaced")) WriteFile(file, bytes);

      writer_->LookForFiles();
      Drain();
      Write("after");
      writer_->LookForFiles();
      Drain();
      EXPECT_EQ(persisted(), before);
      ASSERT_EQ(losses().size(), 1u);
      EXPECT_EQ(GetErrorInfo(losses()[0]).reason, "JOURNAL_LOST");
      EXPECT_EQ(GetErrorInfo(losses()[0]).metadata.at("file"), file);
      EXPECT_EQ(KeysOfBackup(), (std::vector<std::string>{"before"}));
      writer_ = nullptr;
    }
  }
}

TEST_F(JournalFilesTest, AFileThatAnotherUserMayHavePutThereIsRefused) {
  const std::string victim = (directory_ / "victim").string();
  WriteFile(victim, "precious");
  for (const char* suffix : {"", ".head"}) {
    for (const char* kind : {"link", "pipe", "two names"}) {
      SCOPED_TRACE(absl::StrCat("journal", suffix, " is a ", kind));
      for (const char* each : {"", "-wal", ".head"}) fs::remove(path_ + each);
      { AddMany(*MustOpen(), 3); }
      const std::string file = path_ + suffix;
      fs::remove(file);
      if (kind == std::string("link")) fs::create_symlink(victim, file);
      if (kind == std::string("pipe")) ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
      if (kind == std::string("two names")) fs::create_hard_link(victim, file);
      EXPECT_FALSE(Open().ok());
      EXPECT_EQ(ReadFile(victim), "precious");
    }
  }
}

TEST_F(JournalFilesTest, AFolderMayBeBehindALink) {
  const fs::path link = directory_ / "link";
  fs::create_directory_symlink(directory_, link);
  path_ = (link / "journal.db").string();
  Serve();
  Write("key");
  Drain();
  EXPECT_EQ(persisted(), sequence_);
  writer_ = nullptr;
  path_ = (directory_ / "journal.db").string();
  EXPECT_EQ(MustOpen()->ReadAll()->count("key"), 1u);
}

// The look at each tick may come after the next write.
TEST_F(JournalFilesTest, AWriteLooksForTheFilesItself) {
  Serve();
  fs::remove(path_);
  const uint64_t before = persisted();
  Write("after");
  Drain();
  EXPECT_EQ(persisted(), before);
  EXPECT_EQ(losses().size(), 1u);
}

// Regression: SQLite deleted the new journal's WAL when the old server ended.
TEST_F(JournalFilesTest, AServerThatEndsLeavesTheJournalThatTookItsPlace) {
  { AddMany(*MustOpen(), 3); }
  const Files other = [&] {
    auto journal = MustOpen();
    AddMany(*journal, 3);
    return Take();
  }();
  ASSERT_TRUE(other.contains("-wal"));
  Serve();
  Put(other);
  writer_ = nullptr;
  EXPECT_TRUE(Take() == other);
}

}  // namespace
}  // namespace remesh::server
