// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "worker/keeper/keeper_client.h"
#include "worker/keeper/keeper_table.h"
#include "worker/keeper/testing/descriptors.h"
#include "worker/keeper/unix_listener.h"

namespace remesh::worker {
namespace {

// A memory file with a number in it, which stands for GPU memory.
Fd Memory(int64_t number) {
  Fd fd(memfd_create("keeper-test", MFD_CLOEXEC));
  EXPECT_EQ(pwrite(fd.get(), &number, sizeof(number), 0), static_cast<ssize_t>(sizeof(number)));
  return fd;
}

int64_t NumberIn(const Fd& fd) {
  int64_t number = -1;
  EXPECT_EQ(pread(fd.get(), &number, sizeof(number), 0), static_cast<ssize_t>(sizeof(number)));
  return number;
}

constexpr uid_t kAnotherUser = 4321;

// While this lives, the kernel treats this thread alone as that user. REQUIRES: root.
class AsUser {
 public:
  explicit AsUser(uid_t uid) { Become(uid); }
  ~AsUser() { Become(0); }

 private:
  static void Become(uid_t uid) { EXPECT_EQ(syscall(SYS_setresuid, -1, uid, -1), 0); }
};

// A connection whose reads end after a while, so that a test without an answer fails.
Fd Connected(const std::string& path) {
  auto connection = ConnectForPackets(path);
  EXPECT_TRUE(connection.ok()) << connection.status();
  if (!connection.ok()) return Fd();
  constexpr timeval kPatience{.tv_sec = 10, .tv_usec = 0};
  EXPECT_EQ(setsockopt(connection->get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience)),
            0);
  return *std::move(connection);
}

absl::Status Ask(const Fd& connection) {
  // The other end may have closed by now; the answer then shows it.
  SendPacket(connection.get(), "?", -1).IgnoreError();
  return ReceivePacket(connection.get(), PacketServer::kPacketBytesMax).status();
}

class KeeperTest : public testing::Test {
 protected:
  void SetUp() override { Start(); }
  void Start(size_t segments_max = 100) {
    table_ = std::make_unique<KeeperTable>(segments_max);
    auto server = PacketServer::Start(path_, 0600, "socket-path",
                                      [this](Packet& p) { return table_->Answer(p); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Stop() { server_ = nullptr; }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/keeper-", getpid(), ".sock");
  std::unique_ptr<KeeperTable> table_;
  std::unique_ptr<PacketServer> server_;
};

TEST_F(KeeperTest, WhatIsKeptOutlivesWhoGaveIt) {
  {
    KeeperClient client(path_, "a");
    ASSERT_TRUE(client.Keep("u/1/d0.device", 8, "sim:0", Memory(42).get()).ok());
  }
  KeeperClient later(path_, "a");
  auto found = later.Find("u/1/d0.device");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->segment.bytes(), 8);
  EXPECT_EQ(found->segment.device_uuid(), "sim:0");
  EXPECT_EQ(NumberIn(found->handle), 42);
}

TEST_F(KeeperTest, OwnersDoNotSeeEachOther) {
  KeeperClient a(path_, "a"), b(path_, "b");
  ASSERT_TRUE(a.Keep("x", 8, "", Memory(1).get()).ok());
  ASSERT_TRUE(b.Keep("x", 8, "", Memory(2).get()).ok());
  ASSERT_TRUE(b.Keep("y", 8, "", Memory(3).get()).ok());
  EXPECT_EQ(*a.List(), std::vector<std::string>{"x"});
  EXPECT_EQ(*b.List(), (std::vector<std::string>{"x", "y"}));
  ASSERT_TRUE(a.Drop("x").ok());
  EXPECT_TRUE(absl::IsNotFound(a.Find("x").status()));
  EXPECT_EQ(NumberIn(b.Find("x")->handle), 2);
}

TEST_F(KeeperTest, KeptAgainItIsTheLater) {
  KeeperClient client(path_, "a");
  ASSERT_TRUE(client.Keep("x", 8, "", Memory(1).get()).ok());
  ASSERT_TRUE(client.Keep("x", 8, "", Memory(2).get()).ok());
  EXPECT_EQ(NumberIn(client.Find("x")->handle), 2);
  EXPECT_EQ(table_->size(), 1);
  EXPECT_TRUE(client.Drop("x").ok());
  EXPECT_TRUE(client.Drop("x").ok());
  EXPECT_EQ(table_->size(), 0);
}

TEST_F(KeeperTest, RefusesWhatItCannotHold) {
  KeeperClient client(path_, "a");
  EXPECT_TRUE(absl::IsInvalidArgument(client.Keep("x", 8, "", -1)));
  EXPECT_TRUE(absl::IsInvalidArgument(client.Keep("", 8, "", Memory(1).get())));
  EXPECT_TRUE(absl::IsInvalidArgument(
      client.Keep(std::string(KeeperTable::kNameBytesMax + 1, 'x'), 8, "", Memory(1).get())));
  Stop();
  Start(/*segments_max=*/1);
  EXPECT_TRUE(client.Keep("x", 8, "", Memory(1).get()).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(client.Keep("y", 8, "", Memory(1).get())));
  EXPECT_TRUE(client.Keep("x", 8, "", Memory(1).get()).ok());
}

TEST_F(KeeperTest, ARestartedKeeperIsFoundAgainAndCounted) {
  KeeperClient client(path_, "a");
  ASSERT_TRUE(client.Keep("x", 8, "", Memory(1).get()).ok());
  EXPECT_EQ(client.connections(), 1);
  Stop();
  const absl::Status gone = client.Drop("y");
  EXPECT_TRUE(absl::IsUnavailable(gone)) << gone;
  EXPECT_NE(gone.message().find(path_), std::string::npos) << gone;
  Start();
  EXPECT_TRUE(absl::IsNotFound(client.Find("x").status()));
  EXPECT_EQ(client.connections(), 2);
}

TEST_F(KeeperTest, GarbageEndsNothing) {
  KeeperClient client(path_, "a");
  ASSERT_TRUE(client.Keep("x", 8, "", Memory(1).get()).ok());
  auto garbage = ConnectForPackets(path_);
  ASSERT_TRUE(garbage.ok());
  for (const std::string& bytes : {std::string("\xff\xff\xff"), std::string(1000, 'z')}) {
    ASSERT_TRUE(SendPacket(garbage->get(), bytes, -1).ok());
    const auto answer = ReceivePacket(garbage->get(), PacketServer::kPacketBytesMax);
    ASSERT_TRUE(answer.ok()) << answer.status();
    worker::KeeperResponse response;
    ASSERT_TRUE(response.ParseFromString(answer->bytes));
    EXPECT_EQ(response.code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  }
  // Above the limit: the connection ends.
  ASSERT_TRUE(SendPacket(garbage->get(), std::string(10'000, 'z'), -1).ok());
  EXPECT_FALSE(ReceivePacket(garbage->get(), PacketServer::kPacketBytesMax).ok());
  EXPECT_TRUE(client.Find("x").ok());
}

TEST_F(KeeperTest, ManyIdleConnectionsKeepNoClientOut) {
  std::vector<Fd> idle;
  for (size_t i = 0; i < 2 * PacketServer::kConnectionsMax; ++i) {
    auto connection = ConnectForPackets(path_);
    ASSERT_TRUE(connection.ok()) << connection.status();
    idle.push_back(*std::move(connection));
  }
  KeeperClient client(path_, "a");
  EXPECT_TRUE(client.Keep("x", 8, "", Memory(1).get()).ok());
}

class FloodTest : public testing::Test {
 protected:
  void SetUp() override {
    if (getuid() != 0) GTEST_SKIP() << "only root may be several users";
    const auto answer = [](Packet&) { return PacketServer::Reply{"ok"}; };
    auto server = PacketServer::Start(path_, 0666, "socket-path", answer);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Connections of this process's own user, the oldest first, all of them accepted.
  std::vector<Fd> Flood(size_t count) {
    std::vector<Fd> connections;
    for (size_t i = 0; i < count; ++i) connections.push_back(Connected(path_));
    EXPECT_TRUE(Ask(connections.back()).ok());
    return connections;
  }
  Fd ConnectedAs(uid_t uid) {
    const AsUser other(uid);
    return Connected(path_);
  }

  const std::string path_ = absl::StrCat("/tmp/remesh-flood-", getpid(), ".sock");
  std::unique_ptr<PacketServer> server_;
};

TEST_F(FloodTest, WhoConnectsOftenCutsOnlyHisOwn) {
  const Fd others = ConnectedAs(kAnotherUser);
  const std::vector<Fd> own = Flood(300);
  EXPECT_TRUE(Ask(others).ok());
  EXPECT_TRUE(absl::IsUnavailable(Ask(own.front())));
}

TEST_F(FloodTest, ANewcomerTakesThePlaceOfTheBusiestUsersLongestSilent) {
  const std::vector<Fd> own = Flood(PacketServer::kConnectionsMax);
  EXPECT_TRUE(Ask(own[0]).ok());  // so that own[0] is not the longest silent
  const Fd others = ConnectedAs(kAnotherUser);
  EXPECT_TRUE(Ask(others).ok());
  EXPECT_TRUE(Ask(own[0]).ok());
  EXPECT_TRUE(absl::IsUnavailable(Ask(own[1])));
  EXPECT_TRUE(Ask(own[2]).ok());
}

TEST_F(KeeperTest, NewcomersDoNotWaitForEveryPacketOfOthers) {
  constexpr int kNewcomers = 8;
  absl::Notification held, go, all_in;
  int answered = 0, answered_when_all_in = 0;  // the server's thread's
  std::set<int> seen;
  const auto answer = [&](Packet&) {
    if (++answered == 1) {
      held.Notify();
      go.WaitForNotification();
    }
    return PacketServer::Reply{"ok"};
  };
  const auto admit = [&](int connection) {
    if (seen.insert(connection).second && seen.size() == 1 + kNewcomers) {
      answered_when_all_in = answered;
      all_in.Notify();
    }
    return true;
  };
  const auto server = PacketServer::Start(path_ + ".busy", 0600, "socket-path", answer, admit);
  ASSERT_TRUE(server.ok()) << server.status();
  const Fd busy = Connected(path_ + ".busy");
  for (int i = 0; i < 1 + kNewcomers; ++i) {
    ASSERT_TRUE(SendPacket(busy.get(), "?", -1).ok());
  }
  held.WaitForNotification();
  std::vector<Fd> newcomers;
  for (int i = 0; i < kNewcomers; ++i) newcomers.push_back(Connected(path_ + ".busy"));
  go.Notify();
  ASSERT_TRUE(all_in.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_LE(answered_when_all_in, 2);
}

TEST_F(KeeperTest, AnswersThatNoClientReadsHoldFewDescriptors) {
  constexpr int kQuestions = 100;
  const auto handle = std::make_shared<const Fd>(Memory(1));
  absl::Notification all_asked;
  const auto answer = [&](Packet&) {
    all_asked.WaitForNotification();
    return PacketServer::Reply{"ok", handle};
  };
  const auto server = PacketServer::Start(path_ + ".unread", 0600, "socket-path", answer);
  ASSERT_TRUE(server.ok()) << server.status();
  const Fd silent = Connected(path_ + ".unread");
  for (int i = 0; i < kQuestions; ++i) ASSERT_TRUE(SendPacket(silent.get(), "?", -1).ok());
  all_asked.Notify();
  // The server answers `other` after `silent`: each round answers one question of each connection.
  const Fd other = Connected(path_ + ".unread");
  for (int i = 0; i < kQuestions; ++i) ASSERT_TRUE(Ask(other).ok());
  // The connection may have been reset. The kernel reports that once, before the answers sent until
  // then.
  int answers = 0;
  for (int errors = 0; errors < 2;) {
    const bool answered = ReceivePacket(silent.get(), PacketServer::kPacketBytesMax).ok();
    ++(answered ? answers : errors);
  }
  EXPECT_GE(answers, 1);
  EXPECT_LE(answers, 20);
}

// A server that a test can hold up, so that packets of a peer wait unread until the peer has closed
// its own descriptors.
class SlowCloseTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto answer = [this](Packet& packet) {
      if (packet.bytes == "hold") {
        held_.Notify();
        go_.WaitForNotification();
      }
      return PacketServer::Reply{"ok"};
    };
    const auto upkeep = [this] {
      ++rounds_;
      return absl::Milliseconds(1);
    };
    auto server = PacketServer::Start(path_, 0600, "socket-path", answer, /*admit=*/{}, upkeep);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    holding_ = Connected(path_);
    ASSERT_TRUE(SendPacket(holding_.get(), "hold", -1).ok());
    held_.WaitForNotification();
    peer_ = Connected(path_);
  }
  void TearDown() override { socket_.other.Reset(); }
  // REQUIRES: the peer has sent the socket. From here on the server has its last descriptor.
  void Go() {
    socket_.slow.Reset();
    go_.Notify();
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/slow-", getpid(), ".sock");
  absl::Notification held_, go_;
  std::atomic<int> rounds_ = 0;
  LingeringSocket socket_ = NewLingeringSocket();
  std::unique_ptr<PacketServer> server_;
  Fd holding_, peer_;
};

TEST_F(SlowCloseTest, ADescriptorThatWasNotAskedForHoldsUpNoClient) {
  SendDescriptors(peer_, {socket_.slow.get()});
  Go();
  EXPECT_TRUE(Ask(Connected(path_)).ok());
}

TEST_F(SlowCloseTest, DescriptorsThatAreTooManyHoldUpNoClient) {
  SendDescriptors(peer_, {socket_.slow.get(), STDERR_FILENO});
  Go();
  EXPECT_TRUE(Ask(Connected(path_)).ok());
}

TEST_F(SlowCloseTest, ADescriptorThatIsNeverReceivedHoldsUpNoClient) {
  ASSERT_TRUE(SendPacket(peer_.get(), std::string(10'000, 'z'), -1).ok());  // too large
  SendDescriptors(peer_, {socket_.slow.get()});
  Go();
  EXPECT_TRUE(Ask(Connected(path_)).ok());
}

TEST_F(SlowCloseTest, TheServersEndDoesNotWaitForWhatItHasNotReceived) {
  const Fd not_accepted = Connected(path_);
  SendDescriptors(not_accepted, {socket_.slow.get()});
  absl::Notification ended;
  std::thread ending([&] {
    server_ = nullptr;
    ended.Notify();
  });
  while (std::filesystem::exists(path_)) absl::SleepFor(absl::Milliseconds(1));  // until it ends
  Go();
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(10)));
  socket_.other.Reset();
  ending.join();
}

TEST_F(SlowCloseTest, DescriptorsThatCannotBeClosedStayFew) {
  const int before = OpenFiles();
  SendDescriptors(peer_, {socket_.slow.get()});
  std::vector<Fd> flood;
  for (int i = 0; i < 8; ++i) {
    flood.push_back(Connected(path_));
    SendDescriptors(flood.back(), std::vector<int>(253, STDERR_FILENO));
  }
  Go();
  for (const int then = rounds_; rounds_ < then + 20;) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_LT(OpenFiles(), before + 600);
  socket_.other.Reset();
  EXPECT_TRUE(Ask(Connected(path_)).ok());
}

TEST_F(KeeperTest, UpkeepIsDoneThoughNoClientAsks) {
  absl::Notification third;
  int calls = 0;
  const auto upkeep = [&] {
    if (++calls == 3) third.Notify();
    return calls < 3 ? absl::Milliseconds(1) : absl::InfiniteDuration();
  };
  const auto answer = [](Packet&) { return PacketServer::Reply(); };
  const auto server =
      PacketServer::Start(path_ + ".idle", 0600, "socket-path", answer, /*admit=*/{}, upkeep);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(third.WaitForNotificationWithTimeout(absl::Seconds(30)));
}

// A connection that sends "stay" has an at_end callback.
class HeldConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto answer = [this](Packet& packet) {
      PacketServer::Reply reply{"ok"};
      if (packet.bytes == "stay") reply.at_end = [this] { ends_.Notify(); };
      if (packet.fd) sender_has_closed_.WaitForNotification();
      return reply;
    };
    auto server = PacketServer::Start(path_, 0600, "socket-path", answer);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    held_ = Connected(path_);
    ASSERT_TRUE(SendPacket(held_.get(), "stay", -1).ok());
    ASSERT_TRUE(ReceivePacket(held_.get(), 100).ok());
  }

  const std::string path_ = absl::StrCat("/tmp/remesh-held-", getpid(), ".sock");
  absl::Notification ends_;
  // Closing the last descriptor of a lingering socket blocks: the server must do that, not the
  // test.
  absl::Notification sender_has_closed_;
  std::unique_ptr<PacketServer> server_;
  Fd held_;
};

TEST_F(HeldConnectionTest, ItsEndIsReported) {
  EXPECT_TRUE(Ask(held_).ok());
  EXPECT_FALSE(ends_.HasBeenNotified());
  held_.Reset();
  EXPECT_TRUE(ends_.WaitForNotificationWithTimeout(absl::Seconds(30)));
}

TEST_F(HeldConnectionTest, ItMakesNoRoomForOthers) {
  std::vector<Fd> flood;
  for (size_t i = 0; i < PacketServer::kConnectionsMax + 10; ++i) flood.push_back(Connected(path_));
  EXPECT_TRUE(Ask(flood.back()).ok());
  EXPECT_FALSE(Ask(flood.front()).ok());
  EXPECT_TRUE(Ask(held_).ok());
  EXPECT_FALSE(ends_.HasBeenNotified());
}

TEST_F(HeldConnectionTest, TheServersOwnEndIsNotReported) {
  server_ = nullptr;
  EXPECT_FALSE(ends_.HasBeenNotified());
}

TEST_F(HeldConnectionTest, ItsEndIsReportedThoughNoConnectionIsRead) {
  const int before = OpenFiles();
  LingeringSocket socket = NewLingeringSocket();
  const Fd slow = Connected(path_), first = Connected(path_), second = Connected(path_);
  SendDescriptors(slow, {socket.slow.get()});
  socket.slow.Reset();
  sender_has_closed_.Notify();
  for (const Fd* flood : {&first, &second})
    SendDescriptors(*flood, std::vector<int>(253, STDERR_FILENO));
  // The descriptors now belong to the server, which cannot close them and reads no connection.
  while (OpenFiles() < before + 500) absl::SleepFor(absl::Milliseconds(1));
  held_.Reset();
  EXPECT_TRUE(ends_.WaitForNotificationWithTimeout(absl::Seconds(30)));
  socket.other.Reset();
}

TEST_F(KeeperTest, APacketSaysWhoseItIs) {
  uid_t uid = static_cast<uid_t>(-1);
  const auto answer = [&uid](Packet& packet) {
    uid = packet.uid;
    return PacketServer::Reply{"ok"};
  };
  const auto server = PacketServer::Start(path_ + ".who", 0600, "socket-path", answer);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto connection = ConnectForPackets(path_ + ".who");
  ASSERT_TRUE(connection.ok()) << connection.status();
  ASSERT_TRUE(SendPacket(connection->get(), "who am I", -1).ok());
  ASSERT_TRUE(ReceivePacket(connection->get(), 100).ok());
  EXPECT_EQ(uid, getuid());
}

TEST_F(KeeperTest, ASocketThatIsInUseOrNoSocketIsLeftAlone) {
  const auto answer = [](Packet&) { return PacketServer::Reply(); };
  const auto second = PacketServer::Start(path_, 0600, "socket-path", answer);
  EXPECT_TRUE(absl::IsInvalidArgument(second.status())) << second.status();
  const auto other_type = ListenAt(path_, SOCK_STREAM, 0600, "socket-path");
  EXPECT_TRUE(absl::IsInvalidArgument(other_type.status())) << other_type.status();
  EXPECT_TRUE(KeeperClient(path_, "a").List().ok());
  const std::string file = path_ + ".file";
  std::ofstream(file) << "something";
  EXPECT_TRUE(
      absl::IsInvalidArgument(PacketServer::Start(file, 0600, "socket-path", answer).status()));
  EXPECT_TRUE(std::filesystem::exists(file));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace remesh::worker
