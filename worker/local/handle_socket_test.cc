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

// Whether the other end is closed by now, or soon.
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
    auto server = ServeHandles(directory_ + "/s", &handles_, &gate_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string directory_;
  HandleTable handles_;
  SocketGate gate_;
  std::unique_ptr<PacketServer> server_;
};

TEST_F(HandleSocketTest, WhatNobodyTakesIsClosedThoughNobodyAsks) {
  Pipe old = NewPipe(), later = NewPipe();
  const absl::Time begin = absl::Now() - HandleTable::kBroughtAge;
  handles_.Bring(std::move(old.writer), 1, begin);
  handles_.Bring(std::move(later.writer), 1, begin + absl::Milliseconds(200));
  Serve();
  EXPECT_TRUE(Closes(old.reader)) << "the first look";
  EXPECT_TRUE(Closes(later.reader)) << "one that is due later";
}

// Sends "lend" with it. The answer's first word.
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
  // What CUDA exports is one of these.
  EXPECT_EQ(Lend(path, Fd(open("/dev/null", O_RDWR | O_CLOEXEC)).get()), "ok");
  EXPECT_EQ(Lend(path, Fd(eventfd(0, EFD_CLOEXEC)).get()), "ok");
}

}  // namespace
}  // namespace remesh::worker
