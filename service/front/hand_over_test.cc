// SPDX-License-Identifier: Apache-2.0
#include "service/front/hand_over.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

namespace remesh::service {
namespace {

std::array<Fd, 2> Pair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

// As gRPC may: reads until there is nothing more, then goes on with another.
void ReadToTheEnd(int connection) {
  const Fd owned(connection);
  char byte;
  while (recv(connection, &byte, 1, 0) > 0) {
  }
}

std::vector<HandOver::Taker> Readers(int count) {
  std::vector<HandOver::Taker> takers;
  for (int i = 0; i < count; ++i) takers.emplace_back(ReadToTheEnd);
  return takers;
}

// Waits until the other side closes.
bool IsClosed(const Fd& end) {
  char byte;
  return recv(end.get(), &byte, 1, 0) <= 0;
}

TEST(HandOverTest, ABusyConnectionKeepsNoOtherWaiting) {
  HandOver hand_over(Readers(2));
  auto [busy, busy_end] = Pair();
  hand_over.Pass(std::move(busy_end));
  for (int i = 0; i < 10; ++i) {
    auto [other, other_end] = Pair();
    hand_over.Pass(std::move(other_end));
    shutdown(other.get(), SHUT_WR);
    EXPECT_TRUE(IsClosed(other));
  }
  EXPECT_EQ(send(busy.get(), "x", 1, MSG_NOSIGNAL), 1);
}

// Regression: a connection that was ended kept its descriptor until a taker was free.
TEST(HandOverTest, AConnectionThatWaitsCanBeDropped) {
  HandOver hand_over(Readers(1));
  auto [busy, busy_end] = Pair();
  hand_over.Pass(std::move(busy_end));
  auto [first, first_end] = Pair();
  auto [second, second_end] = Pair();
  const int dropped = first_end.get();
  hand_over.Pass(std::move(first_end));
  hand_over.Pass(std::move(second_end));
  hand_over.Drop(dropped);
  EXPECT_TRUE(IsClosed(first));
  EXPECT_EQ(send(second.get(), "x", 1, MSG_NOSIGNAL), 1);
}

TEST(HandOverTest, ItsEndEndsBusyConnectionsAndThoseThatWait) {
  std::vector<Fd> ours;
  {
    HandOver hand_over(Readers(2));
    for (int i = 0; i < 8; ++i) {
      auto [end, other_end] = Pair();
      hand_over.Pass(std::move(other_end));
      ours.push_back(std::move(end));
    }
  }
  for (const Fd& end : ours) EXPECT_TRUE(IsClosed(end));
}

}  // namespace
}  // namespace remesh::service
