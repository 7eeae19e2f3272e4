// SPDX-License-Identifier: Apache-2.0
#include "worker/local/handle_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace remesh::worker {
namespace {

struct Pipe {
  Fd reader, writer;
};

Pipe NewPipe() {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

// Whether the other end of the pipe closes within 10 s.
bool Closes(const Fd& end) {
  constexpr int kPatienceMillis = 10'000;
  pollfd wait{end.get(), 0, 0};
  return poll(&wait, 1, kPatienceMillis) == 1 && (wait.revents & (POLLHUP | POLLERR)) != 0;
}

// The worker's socket of handles.
class HandleSocketTest : public ::testing::Test {
 protected:
  HandleSocketTest() {
    std::string path = "/tmp/remesh_handles.XXXXXX";
    directory_ = mkdtemp(path.data());
  }
  ~HandleSocketTest() override {
    server_ = nullptr;
    std::filesystem::remove_all(directory_);
  }

  void Serve() {
    auto server =
        ServeHandles(directory_ + "/s", &handles_, &gate_, [this] { lease_ended_.Notify(); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string directory_;
  HandleTable handles_;
  SocketGate gate_;
  absl::Notification lease_ended_;
  std::unique_ptr<PacketServer> server_;
};

TEST_F(HandleSocketTest, WhatNoCallTakesIsClosedThoughNoClientAsks) {
  Pipe old = NewPipe(), later = NewPipe();
  const absl::Time begin = absl::Now() - HandleTable::kBroughtAge;
  handles_.Bring(std::move(old.writer), 1, begin);
  handles_.Bring(std::move(later.writer), 1, begin + absl::Milliseconds(200));
  Serve();
  EXPECT_TRUE(Closes(old.reader)) << "the first look";
  EXPECT_TRUE(Closes(later.reader)) << "one that is due later";
}

// Sends "lend" with the descriptor `fd`. Returns the first word of the answer.
std::string Lend(const std::string& path, int fd) {
  const auto connection = ConnectForPackets(path);
  EXPECT_TRUE(connection.ok()) << connection.status();
  if (!connection.ok()) return "";
  EXPECT_TRUE(SendPacket(connection->get(), "lend", fd).ok());
  const auto answer = ReceivePacket(connection->get(), 100);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? answer->bytes.substr(0, answer->bytes.find(' ')) : "";
}

TEST_F(HandleSocketTest, WhatMayTakeLongToCloseIsNotKept) {
  Serve();
  const std::string path = directory_ + "/s" + kHandlesSuffix;
  const Pipe pipe = NewPipe();
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const Fd socket(sockets[0]), other(sockets[1]);
  EXPECT_NE(Lend(path, pipe.writer.get()), "ok");
  EXPECT_NE(Lend(path, socket.get()), "ok");
  EXPECT_NE(Lend(path, Fd(open("/", O_RDONLY | O_CLOEXEC)).get()), "ok");
  EXPECT_NE(Lend(path, Fd(open("/proc/self/status", O_RDONLY | O_CLOEXEC)).get()), "ok");
  EXPECT_EQ(Lend(path, Fd(memfd_create("lent", MFD_CLOEXEC)).get()), "ok");
  // CUDA exports descriptors of these two kinds.
  EXPECT_EQ(Lend(path, Fd(open("/dev/null", O_RDWR | O_CLOEXEC)).get()), "ok");
  EXPECT_EQ(Lend(path, Fd(eventfd(0, EFD_CLOEXEC)).get()), "ok");
}

std::string Answer(const Fd& connection, const std::string& question) {
  EXPECT_TRUE(SendPacket(connection.get(), question, -1).ok());
  const auto answer = ReceivePacket(connection.get(), 100);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? answer->bytes : "";
}

TEST_F(HandleSocketTest, ALeaseStandsAsLongAsItsConnection) {
  Serve();
  auto connection = ConnectForPackets(directory_ + "/s" + kHandlesSuffix);
  ASSERT_TRUE(connection.ok()) << connection.status();
  const std::string answer = Answer(*connection, "lease");
  ASSERT_EQ(answer.substr(0, 3), "ok ");
  const std::string token = answer.substr(3);
  std::shared_ptr<const Lease> lease = handles_.leases().Find(token);
  ASSERT_NE(lease, nullptr);
  EXPECT_EQ(Answer(*connection, "held " + token), "yes");
  const std::weak_ptr<const Lease> kept = std::exchange(lease, nullptr);
  EXPECT_EQ(Answer(*connection, "held " + token), "no");
  lease = kept.lock();
  ASSERT_NE(lease, nullptr);
  EXPECT_FALSE(lease->ended());
  connection->Reset();
  ASSERT_TRUE(lease_ended_.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_TRUE(lease->ended());
  EXPECT_EQ(handles_.leases().Find(token), nullptr);
}

TEST_F(HandleSocketTest, WhatIsNoLeaseIsNotHeld) {
  Serve();
  const auto connection = ConnectForPackets(directory_ + "/s" + kHandlesSuffix);
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(Answer(*connection, "held 0123"), "no lease has this token (any more)");
  EXPECT_EQ(Answer(*connection, "held "), "no lease has this token (any more)");
}

// A trainer whose connection has ended for another reason asks by a new one.
TEST(LeaseTableTest, AnEndedLeaseIsHeldUntilItsLastUserLetsGo) {
  LeaseTable leases;
  const std::string token = *leases.Begin(1);
  std::shared_ptr<const Lease> user = leases.Find(token);
  leases.End(token);
  EXPECT_EQ(leases.Find(token), nullptr);
  EXPECT_EQ(leases.Held(token), true);
  user = nullptr;
  EXPECT_EQ(leases.Held(token), false);
  EXPECT_TRUE(leases.Begin(1).has_value());
  EXPECT_EQ(leases.Held(token), std::nullopt) << "it is forgotten";
}

TEST(LeaseTableTest, OneUserCannotTakeAllLeases) {
  LeaseTable leases;
  std::string last;
  for (size_t i = 0; i < LeaseTable::kMaxOfUser; ++i) {
    const auto token = leases.Begin(1);
    ASSERT_TRUE(token.has_value());
    last = *token;
  }
  EXPECT_FALSE(leases.Begin(1).has_value());
  EXPECT_TRUE(leases.Begin(2).has_value());
  leases.End(last);
  EXPECT_TRUE(leases.Begin(1).has_value());
}

}  // namespace
}  // namespace remesh::worker
