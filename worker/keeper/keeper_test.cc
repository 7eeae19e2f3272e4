// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "worker/keeper/keeper_client.h"
#include "worker/keeper/keeper_table.h"
#include "worker/keeper/unix_listener.h"

namespace remesh::worker {
namespace {

// A file of memory with a number in it, which stands for a GPU's.
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

class KeeperTest : public testing::Test {
 protected:
  void SetUp() override { Start(); }
  void Start(size_t segments_max = 100) {
    table_ = std::make_unique<KeeperTable>(segments_max);
    auto server = PacketServer::Start(path_, 0600, "socket-path",
                                      [this](Packet p) { return table_->Answer(std::move(p)); });
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

TEST_F(KeeperTest, ManyIdleConnectionsKeepNobodyOut) {
  std::vector<Fd> idle;
  for (size_t i = 0; i < 2 * PacketServer::kConnectionsMax; ++i) {
    auto connection = ConnectForPackets(path_);
    ASSERT_TRUE(connection.ok()) << connection.status();
    idle.push_back(*std::move(connection));
  }
  KeeperClient client(path_, "a");
  EXPECT_TRUE(client.Keep("x", 8, "", Memory(1).get()).ok());
}

TEST_F(KeeperTest, UpkeepIsDoneThoughNobodySpeaks) {
  absl::Notification third;
  int calls = 0;
  const auto upkeep = [&] {
    if (++calls == 3) third.Notify();
    return calls < 3 ? absl::Milliseconds(1) : absl::InfiniteDuration();
  };
  const auto answer = [](Packet) { return PacketServer::Reply(); };
  const auto server =
      PacketServer::Start(path_ + ".idle", 0600, "socket-path", answer, /*admit=*/{}, upkeep);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(third.WaitForNotificationWithTimeout(absl::Seconds(30)));
}

TEST_F(KeeperTest, APacketSaysWhoseItIs) {
  uid_t uid = static_cast<uid_t>(-1);
  const auto answer = [&uid](Packet packet) {
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
  const auto answer = [](Packet) { return PacketServer::Reply(); };
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
