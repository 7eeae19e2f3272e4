// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/packets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>

namespace remesh::worker {
namespace {

std::pair<Fd, Fd> Pair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

int OpenFiles() {
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++files;
  return files;
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

TEST(PacketsTest, DescriptorsThatNobodyAskedForAreClosed) {
  auto [a, b] = Pair();
  const int before = OpenFiles();
  char byte = 'x';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(3 * sizeof(int));
  const int fds[3] = {0, 1, 2};
  std::memcpy(CMSG_DATA(part), fds, sizeof(fds));
  ASSERT_EQ(sendmsg(a.get(), &message, 0), 1);
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
