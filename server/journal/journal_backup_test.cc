// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_backup.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/journal/journal_check.h"
#include "server/journal/journal_test.h"
#include "server/journal/journal_writer.h"

namespace remesh::server {
namespace {

class JournalBackupTest : public JournalFiles {
 protected:
  // A journal of some megabytes, and its writer.
  void Start(int states = 100, size_t bytes = 50'000) {
    auto journal = MustOpen();
    sequence_ = journal->past().sequence;
    for (int i = 0; i < states; ++i) {
      Add(*journal, sequence_, {{absl::StrCat("state/", i), std::string(bytes, 'x')}});
    }
    Serve(std::move(journal));
  }
  void Serve(std::unique_ptr<Journal> journal) {
    writer_ = std::make_unique<JournalWriter>(
        std::move(journal),
        JournalWriter::Callbacks{.persisted = [](uint64_t, bool) {},
                                 .failed = [](absl::Status s) { ADD_FAILURE() << s; }});
    backups_ = std::make_unique<JournalBackups>(path_, *writer_);
  }
  void StopWriter() {
    backups_ = nullptr;
    writer_ = nullptr;
  }

  // A transaction that changes the first row, the last one and one between.
  void Change() {
    ++sequence_;
    std::vector<Record> records;
    for (const char* key : {"a", "state/50", "z"}) {
      records.push_back({key, absl::StrCat(key, " at ", sequence_)});
    }
    writer_->Write({.sequence = sequence_, .records = std::move(records)});
  }

  // The backup as a file.
  std::string Save(const JournalBackup& backup) {
    std::string bytes(static_cast<size_t>(backup.bytes), '\0');
    EXPECT_EQ(pread(backup.file.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
    const std::string saved = (directory_ / "saved.db").string();
    WriteFile(saved, bytes);
    return saved;
  }
  std::string TakeAndSave() {
    const auto backup = backups_->Take([] { return true; });
    EXPECT_TRUE(backup.ok()) << backup.status();
    return backup.ok() ? Save(*backup) : "";
  }
  // What is in the folder beside the journal's own files.
  std::vector<std::string> Strays() const {
    std::vector<std::string> strays;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const std::string name = entry.path().filename().string();
      const bool ours = name == "journal.db" || name == "journal.db-wal" ||
                        name == "journal.db.head" || name == "journal.db.ballast";
      if (!ours) strays.push_back(name);
    }
    return strays;
  }

  uint64_t sequence_ = 0;
  std::unique_ptr<JournalWriter> writer_;
  std::unique_ptr<JournalBackups> backups_;
};

TEST_F(JournalBackupTest, IsOneMomentOfAJournalThatChangesAtEveryStep) {
  Start();
  int steps = 0;
  const auto backup = backups_->Take([&] {
    Change();  // between this step and the next
    return ++steps > 0;
  });
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_GT(steps, 10);
  EXPECT_TRUE(Strays().empty());
  const auto checked = CheckJournal(Save(*backup));
  ASSERT_TRUE(checked.ok()) << checked.status();
  const uint64_t moment = checked->contents.head.sequence;
  EXPECT_EQ(moment, backup->head.sequence);
  EXPECT_GE(moment, sequence_ - 2);  // of the end of the copy, not of its begin
  for (const char* key : {"a", "state/50", "z"}) {
    EXPECT_EQ(checked->records.at(key), absl::StrCat(key, " at ", moment));
  }
  EXPECT_EQ(checked->records.size(), 102u);
  std::cout << backup->bytes << " bytes in " << steps << " steps\n";
}

TEST_F(JournalBackupTest, OpensAsTheJournalThatItWas) {
  Start(3, 300);
  Change();
  const std::string saved = TakeAndSave();
  StopWriter();
  const Rows rows = *MustOpen()->ReadAll();
  const auto restored = Journal::Open(saved, {});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(*(*restored)->ReadAll(), rows);
  EXPECT_EQ((*restored)->past().sequence, sequence_ + 1);
}

// Beside the head of the journal that went on, it is refused until somebody accepts that.
TEST_F(JournalBackupTest, RestoredUnderANewerHeadItIsBehind) {
  Start(3, 300);
  const std::string saved = TakeAndSave();
  const std::string uid = CheckJournal(saved)->contents.head.journal_uid;
  Change();
  StopWriter();
  std::filesystem::remove(path_ + "-wal");
  std::filesystem::rename(saved, path_);
  EXPECT_EQ(GetErrorInfo(CheckJournal(path_).status()).reason, "JOURNAL_BEHIND");
  EXPECT_EQ(ReasonOf(), "JOURNAL_BEHIND");
  EXPECT_NE(MustOpen({.accept_older = uid}), nullptr);
}

TEST_F(JournalBackupTest, ADamagedJournalIsNotBackedUp) {
  Start(400, 50'000);
  StopWriter();  // and so all of it is in the file
  Serve(MustOpen());
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(path_) / 2);
    file.seekp(middle);
    file << "damage";
  }
  const auto backup = backups_->Take([] { return true; });
  EXPECT_TRUE(absl::IsDataLoss(backup.status())) << backup.status();
  EXPECT_EQ(GetErrorInfo(backup.status()).reason, "JOURNAL_CORRUPT");
  EXPECT_TRUE(Strays().empty());
}

TEST_F(JournalBackupTest, NoCallerWaitsAnyMore) {
  Start();
  int steps = 0;
  const auto backup = backups_->Take([&] { return ++steps < 4; });
  EXPECT_TRUE(absl::IsCancelled(backup.status())) << backup.status();
  EXPECT_EQ(steps, 4);
  EXPECT_TRUE(Strays().empty());
  EXPECT_FALSE(TakeAndSave().empty());  // the next one may
}

TEST_F(JournalBackupTest, OneAtATimeUntilItIsGone) {
  Start(3, 300);
  const auto yes = [] { return true; };
  {
    const auto first = backups_->Take(yes);
    ASSERT_TRUE(first.ok()) << first.status();
    absl::Status second;
    std::thread([&] { second = backups_->Take(yes).status(); }).join();
    EXPECT_EQ(GetErrorInfo(second).reason, "BACKUP_RUNS") << second;
  }
  EXPECT_TRUE(backups_->Take(yes).ok());
}

TEST_F(JournalBackupTest, WhatAKilledServerLeftGoesWhenTheNextOneStarts) {
  WriteFile(path_ + ".backup.tmp", "half of it");
  Start(1, 10);
  EXPECT_TRUE(Strays().empty());
}

TEST_F(JournalBackupTest, AFlippedBitInABackupIsFoundOrHarmless) {
  Start(7, 300);
  const std::string saved = TakeAndSave();
  const std::string good = ReadFile(saved);
  const Rows rows = CheckJournal(saved)->records;
  int refused = 0, same = 0;
  for (size_t at = 0; at < good.size(); at += 13) {
    std::string bad = good;
    bad[at] ^= static_cast<char>(1 << at % 8);
    WriteFile(saved, bad);
    const auto checked = CheckJournal(saved);
    checked.ok() ? ++same : ++refused;
    if (checked.ok()) {
      EXPECT_EQ(checked->records, rows) << at;
    }
  }
  std::cout << good.size() << " bytes: refused " << refused << ", same content " << same << "\n";
  EXPECT_GT(refused, 100);
}

TEST_F(JournalBackupTest, ACheckTellsWhatIsNoJournalToBeRead) {
  EXPECT_EQ(GetErrorInfo(CheckJournal(path_).status()).reason, "NO_JOURNAL");
  WriteFile(path_, "");
  EXPECT_EQ(GetErrorInfo(CheckJournal(path_).status()).reason, "NO_JOURNAL");
  WriteFile(path_, std::string(5000, 'n'));
  EXPECT_EQ(GetErrorInfo(CheckJournal(path_).status()).reason, "JOURNAL_CORRUPT");
  EXPECT_FALSE(std::filesystem::exists(path_ + "-wal"));
  std::filesystem::remove(path_);
  const auto journal = MustOpen();
  EXPECT_EQ(GetErrorInfo(CheckJournal(path_).status()).reason, "JOURNAL_LOCKED");
}

// The newest transactions are in the WAL.
TEST_F(JournalBackupTest, ACheckReadsWhatAKilledServerLeftAndChangesNothing) {
  const Files left = [&] {
    auto journal = MustOpen();
    sequence_ = AddMany(*journal, 20);
    return Take();
  }();
  ASSERT_TRUE(left.contains("-wal"));
  Put(left);
  const auto checked = CheckJournal(path_);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->contents.head.sequence, sequence_);
  EXPECT_EQ(checked->records.size(), 7u);
  EXPECT_TRUE(Take() == left);
}

}  // namespace
}  // namespace remesh::server
