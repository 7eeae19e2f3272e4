// SPDX-License-Identifier: Apache-2.0
// A journal whose disk has not a byte left.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "absl/synchronization/mutex.h"
#include "server/journal/journal_backup.h"
#include "server/journal/journal_test.h"
#include "server/journal/journal_writer.h"

namespace remesh::server {
namespace {

constexpr int kCannotMount = 77;

// A small tmpfs on `directory` that only this process sees.
bool MountSmall(const std::string& directory, const char* size) {
  const uid_t user = getuid(), group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  return mount("none", directory.c_str(), "tmpfs", 0, size) == 0;
}

// Fills the disk until there is no room for even one byte of a new file.
void Fill(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (write(fd, block.data(), block.size()) > 0) continue;
  close(fd);
}

// Reports failures of a test in the process with the small disk; the first failure ends it.
void Require(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "not so: %s\n", what);
  _exit(1);
}
void RequireOk(const absl::Status& status, const char* what) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  Require(status.ok(), what);
}

// A journal on a disk of its own that other files fill.
class SmallDisk {
 public:
  explicit SmallDisk(std::string directory) : directory_(std::move(directory)) { Reopen(); }

  void Reopen() {
    journal_ = nullptr;
    auto journal = Journal::Open(path(), {});
    RequireOk(journal.status(), "opens");
    journal_ = *std::move(journal);
    sequence_ = journal_->past().sequence;
  }
  absl::Status Write(size_t bytes = 300) {
    return journal_->Write(++sequence_,
                           {{"state/" + std::to_string(sequence_ % 7), std::string(bytes, 'x')}});
  }
  absl::Status Put(const std::string& key, std::optional<std::string> bytes) {
    return journal_->Write(++sequence_, {{key, std::move(bytes)}});
  }
  // Writes as any tenant could, to a disk that others have filled.
  void WriteUntilFull() {
    Fill(directory_ + "/filler");
    for (int i = 0; i < 5000 && !journal_->full(); ++i) RequireOk(Write(), "written when full");
    Require(journal_->full(), "notices that the disk is full");
    Require(!HasBallast(), "gives the ballast");
  }
  void FreeDisk() { std::filesystem::remove(directory_ + "/filler"); }
  bool HasBallast() const { return std::filesystem::exists(path() + ".ballast"); }
  std::string path() const { return directory_ + "/journal.db"; }
  Journal& journal() { return *journal_; }
  std::unique_ptr<Journal> Give() { return std::move(journal_); }
  uint64_t& sequence() { return sequence_; }

 private:
  const std::string directory_;
  std::unique_ptr<Journal> journal_;
  uint64_t sequence_ = 0;
};

class JournalFullTest : public JournalFiles {
 protected:
  // Runs `test` in a process that sees a disk of that size.
  void OnDisk(const char* size, void (*test)(const std::string& directory)) {
    const pid_t child = fork();
    if (child == 0) {
      if (!MountSmall(directory_.string(), size)) _exit(kCannotMount);
      test(directory_.string());
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "this user may not mount a tmpfs";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
};

TEST_F(JournalFullTest, DecisionsAreStillWrittenOnAFullDisk) {
  OnDisk("size=32m", [](const std::string& directory) {
    SmallDisk disk(directory);
    Require(disk.HasBallast() && !disk.journal().full(), "has a ballast");
    disk.WriteUntilFull();
    // More than the room, unless the WAL is moved into the file in the meantime.
    for (int i = 0; i < 5000; ++i) RequireOk(disk.Write(), "a decision is written");
    Require(disk.journal().full(), "is still full");
    disk.Reopen();
    Require(disk.journal().full(), "is full after a restart");
    RequireOk(disk.Write(), "a decision is written after a restart");
    disk.FreeDisk();
    RequireOk(disk.Write(), "written with room");
    Require(disk.HasBallast() && !disk.journal().full(), "has a ballast again");
  });
}

TEST_F(JournalFullTest, AServerStartsOnADiskThatFilledWhileItWasAway) {
  OnDisk("size=32m", [](const std::string& directory) {
    SmallDisk disk(directory);
    disk.Give() = nullptr;
    Fill(directory + "/filler");
    disk.Reopen();
    Require(disk.journal().full(), "took the ballast to start");
    for (int i = 0; i < 1000; ++i) RequireOk(disk.Write(), "a decision is written");
  });
}

TEST_F(JournalFullTest, ADiskWithoutRoomForABallastIsFullFromTheStart) {
  OnDisk("size=12m", [](const std::string& directory) {
    SmallDisk disk(directory);
    Require(disk.journal().full() && !disk.HasBallast(), "is full");
    RequireOk(disk.Write(), "a decision is written");
  });
}

TEST_F(JournalFullTest, OnlyWithoutBallastDoesAWriteFailAndThenNothingIsLost) {
  OnDisk("size=32m", [](const std::string& directory) {
    SmallDisk disk(directory);
    disk.WriteUntilFull();
    Fill(directory + "/more");
    absl::Status status;
    uint64_t written = 0;
    while (status.ok()) {
      written = disk.sequence();
      status = disk.Write(100'000);
    }
    Require(absl::IsResourceExhausted(status), "the status says so");
    Require(GetErrorInfo(status).reason == "JOURNAL_FULL", "the reason says so");
    disk.FreeDisk();
    std::filesystem::remove(directory + "/more");
    disk.Reopen();
    Require(disk.sequence() == written + 1, "what was written is there");
    Require(disk.HasBallast(), "has a ballast again");
  });
}

TEST_F(JournalFullTest, WhatIsDeletedGivesItsRoomBackToTheBallast) {
  OnDisk("size=48m", [](const std::string& directory) {
    SmallDisk disk(directory);
    const auto key = [](int i) { return "state/" + std::to_string(i); };
    int states = 0;
    while (!disk.journal().full()) {
      RequireOk(disk.Put(key(states++), std::string(100'000, 'x')), "a state is made");
    }
    Require(!disk.HasBallast(), "states filled the disk");
    const auto before = std::filesystem::file_size(disk.path());
    for (int i = 0; i < states; ++i) RequireOk(disk.Put(key(i), std::nullopt), "one is deleted");
    for (int i = 0; i < 100 && disk.journal().full(); ++i) RequireOk(disk.Write(), "a write");
    Require(disk.HasBallast() && !disk.journal().full(), "has a ballast again");
    Require(std::filesystem::file_size(disk.path()) < before, "the journal is shorter");
    disk.Reopen();
    Require(!disk.journal().full(), "and all of it is sound");
  });
}

TEST_F(JournalFullTest, TheWriterTellsThatItIsFullAndThatThereIsRoomAgain) {
  OnDisk("size=32m", [](const std::string& directory) {
    SmallDisk disk(directory);
    uint64_t sequence = disk.sequence();
    absl::Mutex mutex;
    uint64_t told = sequence;
    bool full = false;
    const auto on_disk = [&] { return told == sequence; };
    const auto has_room = [&] { return !full; };
    JournalWriter writer(disk.Give(),
                         {.persisted =
                              [&](uint64_t now, bool is_full) {
                                absl::MutexLock lock(&mutex);
                                told = now;
                                full = is_full;
                              },
                          .failed = [](absl::Status status) { RequireOk(status, "writes"); }},
                         absl::Milliseconds(1));
    Fill(directory + "/filler");
    absl::MutexLock lock(&mutex);
    for (int i = 0; i < 5000 && !full; ++i) {
      writer.Write({.sequence = ++sequence, .records = {{"n", std::string(300, 'x')}}});
      mutex.Await(absl::Condition(&on_disk));
    }
    Require(full, "tells that it is full");
    disk.FreeDisk();  // and nothing is written any more
    mutex.Await(absl::Condition(&has_room));
    Require(told == sequence, "tells no other sequence");
  });
}

// The room that the journal needs is left, and the copy is gone.
TEST_F(JournalFullTest, ABackupTakesNoRoomFromDecisions) {
  OnDisk("size=80m", [](const std::string& directory) {
    SmallDisk disk(directory);
    for (int i = 0; i < 100; ++i) {
      RequireOk(disk.Put("state/" + std::to_string(i), std::string(100'000, 'x')), "written");
    }
    uint64_t sequence = disk.sequence();
    const std::string path = disk.path();
    JournalWriter writer(disk.Give(),
                         {.persisted = [](uint64_t, bool full) { Require(!full, "has room"); },
                          .failed = [](absl::Status status) { RequireOk(status, "writes"); }});
    JournalBackups backups(path, writer);
    int steps = 0;
    const auto full_at_the_third_step = [&] {
      if (++steps == 3) Fill(directory + "/filler");
      return true;
    };
    absl::Status status = backups.Take(full_at_the_third_step).status();
    Require(GetErrorInfo(status).reason == "BACKUP_FULL", "a disk that fills in between");
    Require(!std::filesystem::exists(path + ".backup.tmp"), "leaves nothing behind");
    steps = 10;
    status = backups.Take(full_at_the_third_step).status();
    Require(GetErrorInfo(status).reason == "BACKUP_FULL", "a disk that is full");
    Require(steps == 11, "is refused before anything is copied");
    std::filesystem::remove(directory + "/filler");
    writer.Write({.sequence = ++sequence, .records = {{"n", "x"}}});
    RequireOk(backups.Take([] { return true; }).status(), "a disk with room");
  });
}

}  // namespace
}  // namespace remesh::server
