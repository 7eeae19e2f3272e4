// SPDX-License-Identifier: Apache-2.0
// One flipped bit anywhere: the journal is refused, or it is whole. Never an older one.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "server/journal/journal_test.h"

namespace remesh::server {
namespace {

class JournalDamageTest : public JournalFiles {
 protected:
  struct Outcomes {
    int refused = 0;
    int same = 0;
  };

  // The files that a server leaves when it is killed after `transactions`.
  Files Crashed(int transactions, size_t bytes = 300) {
    auto journal = MustOpen();
    last_ = AddMany(*journal, transactions, bytes);
    return Remember(*journal);
  }
  Files Remember(Journal& journal) {
    rows_ = *journal.ReadAll();
    return Take();
  }
  Files Closed(int transactions, size_t bytes = 300) {
    Crashed(transactions, bytes);
    return Take();
  }

  void Try(const Files& files, const std::string& what, Outcomes& outcomes) {
    Put(files);
    auto journal = Open();
    if (!journal.ok()) {
      ++outcomes.refused;
      EXPECT_TRUE(Take() == files)
          << what << ": a refused journal was changed: " << journal.status();
      return;
    }
    ++outcomes.same;
    EXPECT_EQ((*journal)->past().sequence, last_ + 1) << what;
    EXPECT_EQ(*(*journal)->ReadAll(), rows_) << what;
  }

  // Every `stride`-th byte of [begin, end) of one of the files, another bit of it each time.
  Outcomes FlipEach(const Files& files, const std::string& suffix, size_t begin, size_t end,
                    size_t stride) {
    Outcomes outcomes;
    for (size_t offset = begin; offset < end; offset += stride) {
      Files damaged = files;
      damaged[suffix][offset] ^= static_cast<char>(1 << (offset / stride) % 8);
      Try(damaged, absl::StrCat("journal", suffix, " at ", offset), outcomes);
      if (HasFailure()) break;
    }
    std::cout << "flipped in journal" << suffix << " [" << begin << ", " << end << "): refused "
              << outcomes.refused << ", same content " << outcomes.same << "\n";
    return outcomes;
  }

  uint64_t last_ = 0;
  Rows rows_;
};

constexpr size_t kWalHeader = 32, kFrame = 24 + 4096;

TEST_F(JournalDamageTest, AFlippedBitInAWalFrameNeverMakesAnOlderJournal) {
  const Files files = Crashed(40);
  const size_t size = files.at("-wal").size();
  ASSERT_GT(size, kWalHeader + 80 * kFrame);
  EXPECT_EQ(FlipEach(files, "-wal", kWalHeader + kFrame, size, 397).same, 0);
}

TEST_F(JournalDamageTest, AFlippedBitInFrame0NeverMakesANewJournal) {
  const Files files = Crashed(10);
  EXPECT_EQ(FlipEach(files, "-wal", 0, kWalHeader + 24, 1).same, 0);
  EXPECT_EQ(FlipEach(files, "-wal", kWalHeader + 24, kWalHeader + kFrame, 61).same, 0);
}

// The WAL began again over frames that are in the file already.
TEST_F(JournalDamageTest, AFlippedBitAfterACheckpointNeverMakesAnOlderJournal) {
  auto journal = MustOpen();
  last_ = journal->past().sequence;
  std::vector<Record> hosts;
  for (int i = 0; i < 100; ++i) hosts.push_back({absl::StrCat("host/", i), std::string(500, 'h')});
  Add(*journal, last_, hosts);
  for (int i = 0; i < 120; ++i) {
    Add(*journal, last_, {{absl::StrCat("state/", i % 7), std::string(40'000, 'x')}});
  }
  const Files files = Remember(*journal);
  journal = nullptr;
  ASSERT_GT(files.at("").size(), 40 * 4096u);
  EXPECT_GT(FlipEach(files, "-wal", 0, files.at("-wal").size(), 29'989).refused, 0);
  EXPECT_GT(FlipEach(files, "", 0, files.at("").size(), 1999).refused, 0);
}

TEST_F(JournalDamageTest, AFlippedBitInTheFileIsFoundOrHarmless) {
  const Files files = Closed(40, 3000);
  ASSERT_FALSE(files.contains("-wal"));
  EXPECT_GT(FlipEach(files, "", 0, files.at("").size(), 31).refused, 600);
  FlipEach(files, "", 0, 108, 1);  // the header, which has the version
}

TEST_F(JournalDamageTest, EveryBitOfTheVersionCounts) {
  const Files files = Closed(3);
  for (int bit = 0; bit < 32; ++bit) {
    Files damaged = files;
    damaged[""][60 + bit / 8] ^= static_cast<char>(1 << bit % 8);
    Outcomes outcomes;
    Try(damaged, absl::StrCat("version bit ", bit), outcomes);
    EXPECT_EQ(outcomes.refused, 1) << bit;
  }
}

TEST_F(JournalDamageTest, AFlippedByteInsideAStoredBlobIsNamedByItsKey) {
  const Files files = Closed(7);
  const std::string content = std::string(300, 'x');
  int refused = 0;
  for (size_t at = files.at("").find(content); at != std::string::npos;
       at = files.at("").find(content, at + content.size())) {
    for (size_t i = 0; i < content.size(); i += 37) {
      Files damaged = files;
      damaged[""][at + i] ^= 4;
      Put(damaged);
      const absl::Status status = Open().status();
      if (status.ok()) continue;  // of an older version of the row, in a page that is free again
      ++refused;
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_EQ(GetErrorInfo(status).reason, "JOURNAL_CORRUPT");
      EXPECT_EQ(GetErrorInfo(status).metadata.at("key").substr(0, 6), "state/") << status;
    }
  }
  EXPECT_GE(refused, 7 * 9);
}

TEST_F(JournalDamageTest, AFlippedBitInTheHeadFileIsHarmless) {
  const Files files = Crashed(10);
  EXPECT_EQ(FlipEach(files, ".head", 0, files.at(".head").size(), 13).refused, 0);
}

TEST_F(JournalDamageTest, AWalThatIsCutOffIsRefusedWhereATransactionIsMissing) {
  const Files files = Crashed(40);
  const size_t frames = (files.at("-wal").size() - kWalHeader) / kFrame;
  Outcomes outcomes;
  for (size_t frame = 0; frame < frames; ++frame) {
    for (const size_t more : {size_t{0}, size_t{1}, kFrame - 1}) {
      Files cut = files;
      cut["-wal"].resize(kWalHeader + frame * kFrame + more);
      Try(cut, absl::StrCat(frame, " frames and ", more, " bytes"), outcomes);
    }
  }
  Files cut = files;
  cut.erase("-wal");
  Try(cut, "no WAL", outcomes);
  std::cout << frames << " frames: refused " << outcomes.refused << ", same content "
            << outcomes.same << "\n";
  EXPECT_EQ(outcomes.same, 0);
}

// A file from an old copy under the present WAL: pages of two times, each intact by itself.
TEST_F(JournalDamageTest, AnOlderFileUnderTheNewestWalIsFound) {
  const Files old = [&] {
    auto journal = MustOpen();
    uint64_t sequence = journal->past().sequence;
    std::vector<Record> records;
    for (int i = 0; i < 300; ++i) records.push_back({absl::StrCat("host/", i), "old"});
    Add(*journal, sequence, records);
    journal = nullptr;
    return Take();
  }();
  {
    auto journal = MustOpen();
    uint64_t sequence = journal->past().sequence;
    for (int i = 0; i < 300; i += 10) {
      Add(*journal, sequence, {{absl::StrCat("host/", i), "new"}});
    }
    for (int i = 0; i < 500; ++i) Add(*journal, sequence, {{"n", "x"}});  // the WAL begins again
    Files files = Take();
    journal = nullptr;
    files[""] = old.at("");
    Put(files);
  }
  const absl::Status status = Open().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).reason, "JOURNAL_CORRUPT") << status;
}

}  // namespace
}  // namespace remesh::server
