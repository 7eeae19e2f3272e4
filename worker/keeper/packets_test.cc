// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/packets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "worker/keeper/testing/descriptors.h"

namespace remesh::worker {
namespace {

std::pair<Fd, Fd> Pair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

TEST(PacketsTest, BytesAndDescriptorArriveTogether) {
  auto [a, b] = Pair();
  ASSERT_TRUE(SendPacket(a.get(), "hello", STDERR_FILENO).ok());
  ASSERT_TRUE(SendPacket(a.get(), "again", -1).ok());
  const auto first = ReceivePacket(b.get(), 100), second = ReceivePacket(b.get(), 100);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->bytes, "hello");
  EXPECT_TRUE(first->fd);
  EXPECT_NE(fcntl(first->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(second->bytes, "again");
  EXPECT_FALSE(second->fd);
}

TEST(PacketsTest, DescriptorsThatWereNotAskedForAreClosed) {
  auto [a, b] = Pair();
  const int before = OpenFiles();
  SendDescriptors(a, {0, 1, 2});
  EXPECT_TRUE(absl::IsInvalidArgument(ReceivePacket(b.get(), 100).status()));
  EXPECT_EQ(OpenFiles(), before);
}

TEST(PacketsTest, SaysWhenTheOtherEndIsGone) {
  auto [a, b] = Pair();
  a.Reset();
  EXPECT_TRUE(absl::IsUnavailable(ReceivePacket(b.get(), 100).status()));
  EXPECT_TRUE(absl::IsUnavailable(SendPacket(b.get(), "x", -1)));
}

TEST(PacketsTest, PathsThatDoNotFitAreRefused) {
  const std::string path = "/tmp/" + std::string(200, 'x');
  const absl::Status refused = ListenForPackets(path, 0600, "keeper_socket").status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_NE(refused.message().find("keeper_socket"), std::string::npos) << refused;
}

}  // namespace
}  // namespace remesh::worker
