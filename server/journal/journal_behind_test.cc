// SPDX-License-Identifier: Apache-2.0
// Journals that lack transactions which were durable.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/journal/journal_test.h"

namespace remesh::server {
namespace {

class JournalBehindTest : public JournalFiles {
 protected:
  // Opened, `transactions` written, closed.
  void Live(int transactions) { AddMany(*MustOpen(), transactions); }

  // The journal as it was, PATH.head as it is.
  void RestoreJournalOnly(const Files& copy) {
    Files files = copy;
    files[".head"] = Take().at(".head");
    Put(files);
  }
  void RestoreHeadOnly(const Files& copy) {
    Files files = Take();
    files.erase(".head");
    if (copy.contains(".head")) files[".head"] = copy.at(".head");
    Put(files);
  }

  void ExpectBehind() {
    const Files before = Take();
    const absl::Status status = Open().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    const ErrorInfo info = GetErrorInfo(status);
    EXPECT_EQ(info.reason, "JOURNAL_BEHIND") << status;
    for (const char* key :
         {"path", "journal_uid", "sequence", "head_journal_uid", "head_sequence"}) {
      EXPECT_TRUE(info.metadata.contains(key)) << key;
    }
    EXPECT_TRUE(Take() == before) << "a refused journal was changed";
  }
};

TEST_F(JournalBehindTest, ACopyFromBeforeTheLastStartIsRefused) {
  Live(10);
  const Files copy = Take();
  Live(0);
  RestoreJournalOnly(copy);
  ExpectBehind();
}

TEST_F(JournalBehindTest, ACopyOfTheSameMomentIsOpened) {
  Live(10);
  const Files copy = Take();
  RestoreJournalOnly(copy);
  MustOpen();
}

TEST_F(JournalBehindTest, ACopyFromBeforeAThousandTransactionsIsRefused) {
  auto journal = MustOpen();
  AddMany(*journal, 10);
  const Files copy = Take();
  uint64_t sequence = journal->past().sequence + 10;
  for (int i = 0; i < 1000; ++i) Add(*journal, sequence, {{"n", std::to_string(i)}});
  journal = nullptr;
  RestoreJournalOnly(copy);
  ExpectBehind();
  const absl::Status status = Open().status();
  EXPECT_EQ(GetErrorInfo(status).metadata.at("sequence"), "11");
  EXPECT_EQ(GetErrorInfo(status).metadata.at("head_sequence"), "1011");
}

// Nothing on this machine shows it; only workers that were told a position know.
TEST_F(JournalBehindTest, ACopyOfBothFilesIsOpenedAndSaysWhatItKnows) {
  Live(10);
  const Files copy = Take();
  JournalPast lost = MustOpen()->past();
  Live(5);
  Put(copy);
  const JournalPast past = MustOpen()->past();
  EXPECT_FALSE(past.accepts_older);
  EXPECT_FALSE(past.ends.contains(lost.leadership));
  EXPECT_EQ(past.sequence, lost.sequence);
}

// The sequence numbers alone would not show it: the journal has more transactions than the witness
// saw.
TEST_F(JournalBehindTest, AForkThatWentFurtherIsRefused) {
  Live(10);
  const Files copy = Take();
  Live(3);
  const Files other = Take();
  Put(copy);
  Live(50);
  RestoreHeadOnly(other);
  ExpectBehind();
}

// A restored copy that went on elsewhere knows the leadership, but not all its transactions.
TEST_F(JournalBehindTest, AForkOfTheSameLeadershipIsRefused) {
  Files copy, head;
  {
    auto journal = MustOpen();
    AddMany(*journal, 10);
    copy = Take();
    uint64_t sequence = journal->past().sequence + 10;
    for (int i = 0; i < 5; ++i) Add(*journal, sequence, {{"n", "x"}});
    head = Take();
  }
  Put(copy);
  Live(50);
  RestoreHeadOnly(head);
  ExpectBehind();
}

TEST_F(JournalBehindTest, AMissingHeadIsWrittenAgain) {
  Live(10);
  RestoreHeadOnly({});
  Live(10);
  const Files copy = Take();
  ASSERT_TRUE(copy.contains(".head"));
  Live(1);
  RestoreJournalOnly(copy);
  ExpectBehind();
}

TEST_F(JournalBehindTest, AnOlderHeadIsHarmless) {
  Live(10);
  const Files copy = Take();
  Live(100);
  RestoreHeadOnly(copy);
  EXPECT_EQ(MustOpen()->past().sequence, 113u);
}

TEST_F(JournalBehindTest, AHeadWithoutAJournalIsRefusedWithAWayOut) {
  Live(10);
  for (const bool empty : {false, true}) {
    std::filesystem::remove(path_);
    if (empty) WriteFile(path_, "");
    ExpectBehind();
    EXPECT_NE(Open().status().message().find("remove " + path_ + ".head"), std::string::npos)
        << Open().status();
  }
  std::filesystem::remove(path_ + ".head");
  EXPECT_EQ(MustOpen()->past().sequence, 1u);
}

TEST_F(JournalBehindTest, TheHeadOfAnotherJournalIsRefused) {
  Live(10);
  const Files other = Take();
  Put({});
  Live(20);
  RestoreHeadOnly(other);
  ExpectBehind();
}

TEST_F(JournalBehindTest, AWalWithoutItsFileIsRefused) {
  auto journal = MustOpen();
  AddMany(*journal, 5);
  const Files files = Take();
  journal = nullptr;
  Put({{"-wal", files.at("-wal")}});
  EXPECT_EQ(ReasonOf(), "JOURNAL_CORRUPT");
  EXPECT_EQ(Take().at("-wal"), files.at("-wal"));
}

TEST_F(JournalBehindTest, ADamagedHeadIsRefusedWithAWayOut) {
  Live(10);
  const std::string uid = MustOpen()->past().journal_uid;
  for (const std::string& bytes : {std::string(), std::string(8192, '\0'), std::string("hello")}) {
    WriteFile(path_ + ".head", bytes);
    const absl::Status status = Open().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(GetErrorInfo(status).reason, "JOURNAL_HEAD_DAMAGED");
    EXPECT_NE(status.message().find("accept_older_journal: " + uid), std::string::npos) << status;
    EXPECT_EQ(Take().at(".head"), bytes);
  }
  EXPECT_TRUE(MustOpen({.accept_older = uid})->past().accepts_older);
  EXPECT_FALSE(MustOpen()->past().accepts_older);
}

TEST_F(JournalBehindTest, AnOlderJournalIsAcceptedByItsUid) {
  Live(10);
  const Files copy = Take();
  Live(20);
  RestoreJournalOnly(copy);
  ExpectBehind();
  const std::string uid = GetErrorInfo(Open().status()).metadata.at("journal_uid");
  const absl::Status status = Open({.accept_older = "another"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).metadata.at("field"), "accept_older_journal");
  EXPECT_NE(status.message().find(uid), std::string::npos) << status;
  ExpectBehind();
  {
    auto journal = MustOpen({.accept_older = uid});
    ASSERT_NE(journal, nullptr);
    EXPECT_TRUE(journal->past().accepts_older);
    EXPECT_EQ(journal->past().sequence, 12u);
    EXPECT_EQ(journal->past().journal_uid, uid);
    AddMany(*journal, 3);
  }
  EXPECT_FALSE(MustOpen()->past().accepts_older);  // for one life
}

// One slot of PATH.head still knew the journal that was given up.
TEST_F(JournalBehindTest, AnAcceptedJournalNeedsToBeAcceptedOnce) {
  Live(10);
  const Files copy = Take();
  Live(20);
  RestoreJournalOnly(copy);
  MustOpen({.accept_older = GetErrorInfo(Open().status()).metadata.at("journal_uid")});
  EXPECT_FALSE(MustOpen()->past().accepts_older);
}

// A restored volume brings PATH.head back too.
TEST_F(JournalBehindTest, AJournalThatFitsItsHeadMayBeAcceptedAsOlder) {
  Live(10);
  const std::string uid = MustOpen()->past().journal_uid;
  EXPECT_TRUE(MustOpen({.accept_older = uid})->past().accepts_older);
  EXPECT_TRUE(absl::IsInvalidArgument(Open({.accept_older = "x"}).status()));
}

TEST_F(JournalBehindTest, NoNewJournalIsAcceptedAsOlder) {
  EXPECT_TRUE(absl::IsInvalidArgument(Open({.accept_older = "x"}).status()));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// The process that runs `life` and is killed at the commit of transaction `at`, before its witness.
void KilledAfterCommit(const std::string& path, int at) {
  int commits = 0;
  auto journal = Journal::Open(path, {.committed = [&] {
                                 if (++commits == at) kill(getpid(), SIGKILL);
                               }});
  for (uint64_t i = 1; journal.ok() && i <= 20; ++i) {
    if (!(*journal)->Write((*journal)->past().sequence + i, {{"n", std::to_string(i)}}).ok()) break;
  }
  _exit(1);
}

TEST_F(JournalBehindTest, AKillBetweenCommitAndHeadLosesNothing) {
  for (const int at : {1, 2, 15}) {
    SCOPED_TRACE(at);
    const uint64_t before = MustOpen()->past().sequence;
    const pid_t child = fork();
    if (child == 0) KilledAfterCommit(path_, at);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    auto journal = MustOpen();
    ASSERT_NE(journal, nullptr);
    EXPECT_EQ(journal->past().sequence, before + at + 1);
    EXPECT_EQ((*journal->ReadAll())["n"], at > 1 ? std::to_string(at - 1) : "");
  }
}

// The first start of all, killed before there is a witness.
TEST_F(JournalBehindTest, AKillBeforeTheFirstHeadLosesNothing) {
  const pid_t child = fork();
  if (child == 0) KilledAfterCommit(path_, 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".head"));
  EXPECT_EQ(MustOpen()->past().sequence, 2u);
}

}  // namespace
}  // namespace remesh::server
