// SPDX-License-Identifier: Apache-2.0
// What only the UCX transport has; tests/conformance tests the contract that all transports share.
#include "worker/transport/ucx_transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "worker/transport/socket_address.h"
#include "worker/transport/ucx_log.h"

namespace remesh::worker {
namespace {

using absl::StatusCode;

TEST(UcxTransportTest, RefusesAddressesItCannotListenOn) {
  EXPECT_EQ(NewUcxTransport({.bind_address = "localhost"}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(NewUcxTransport({.bind_address = "192.0.2.1"}).status().code(),
            StatusCode::kUnavailable);
}

TEST(UcxTransportTest, ListensOnTheAddressItTells) {
  const auto transport = NewUcxTransport({});
  ASSERT_TRUE(transport.ok()) << transport.status();
  EXPECT_EQ((*transport)->address().substr(0, 10), "127.0.0.1:");
  EXPECT_TRUE(ParseSocketAddress((*transport)->address()).ok());
}

TEST(UcxTransportTest, WhatUcxSaysIsALineOfOurLog) {
  LogUcxAsOurs();
  testing::internal::CaptureStderr();
  ucs_log_dispatch("/ucx/src/tcp.c", 7, "f", UCS_LOG_LEVEL_ERROR, &ucs_global_opts.log_component,
                   "%s: \"bad\"\nmagic", "10.0.0.1");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(absl::EndsWith(
      log, " level=warning msg=UCX cause=\"10.0.0.1: \\\"bad\\\"\\nmagic\" at=tcp.c:7\n"))
      << log;
  EXPECT_EQ(log.find('\n'), log.size() - 1) << log;
  ucs_log_pop_handler();
}

// Regression test: such connections stayed forever, and took all descriptors.
TEST(UcxTransportTest, AConnectionThatSaysNothingEnds) {
  const auto transport = NewUcxTransport({});
  ASSERT_TRUE(transport.ok()) << transport.status();
  const auto address = *ParseSocketAddress((*transport)->address());
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ASSERT_EQ(connect(fd, address.get(), address.length), 0);
  char byte;
  EXPECT_EQ(recv(fd, &byte, 1, 0), 0) << "its end, not the end of patience";
  close(fd);
}

class PairTest : public testing::Test {
 protected:
  void Open(const UcxOptions& options) {
    for (auto& transport : transports_) transport = *NewUcxTransport(options);
    const std::vector<Peer> table = {{transports_[0]->address(), "token of first.."},
                                     {transports_[1]->address(), "token of second."}};
    for (int i : {0, 1}) groups_[i] = *transports_[i]->Open(i, table);
  }

  void Progress() {
    for (auto& transport : transports_) transport->Progress();
  }

  void TearDown() override {
    for (auto& group : groups_) group->Abort();
    while (!groups_[0]->quiesced() || !groups_[1]->quiesced()) Progress();
  }

  std::unique_ptr<Transport> transports_[2];
  std::unique_ptr<PeerGroup> groups_[2];
};

TEST_F(PairTest, ASenderThatFloodsIsLost) {
  Open({.held_bytes_max = 10000});
  const std::vector<std::byte> data(1000);
  std::optional<absl::Status> last;
  for (uint32_t i = 0; i < 100; ++i) {
    groups_[0]->Send(1, {.index = i}, data, [](absl::Status) {});
  }
  std::byte never;
  groups_[1]->Receive(0, {.window = 1}, std::span(&never, 1),
                      [&](absl::Status status) { last = status; });
  for (int i = 0; i < 1000000 && !last.has_value(); ++i) Progress();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->code(), StatusCode::kUnavailable) << *last;
}

TEST_F(PairTest, WaitingMessagesWithinTheLimitAreKept) {
  Open({.held_bytes_max = 10000});
  const std::vector<std::byte> data(1000, std::byte{7});
  std::vector<std::byte> got(1000);
  int received = 0;
  for (uint32_t round = 0; round < 10; ++round) {  // far more than the limit in all
    for (uint32_t i = 0; i < 5; ++i) {
      groups_[0]->Send(1, {.window = round, .index = i}, data,
                       [](absl::Status status) { EXPECT_TRUE(status.ok()); });
    }
    for (int i = 0; i < 2000; ++i) Progress();
    for (uint32_t i = 0; i < 5; ++i) {
      groups_[1]->Receive(0, {.window = round, .index = i}, got,
                          [&](absl::Status status) { received += status.ok(); });
    }
    for (int i = 0; i < 1000000 && received < 5 * (static_cast<int>(round) + 1); ++i) Progress();
  }
  EXPECT_EQ(received, 50);
  EXPECT_EQ(got, data);
}

TEST_F(PairTest, WhatWasReceivedMayBeSentAheadAgain) {
  Open({.ahead_bytes_max = 200000});
  const std::vector<std::byte> data(1000);
  std::vector<std::byte> got(1000);
  for (uint32_t round = 0; round < 3; ++round) {
    int sent = 0, received = 0;
    for (uint32_t i = 0; i < 300; ++i) {  // more than may go ahead
      groups_[0]->Send(1, {.window = round, .index = i}, data,
                       [&](absl::Status status) { sent += status.ok(); });
    }
    for (int i = 0; i < 1000000 && sent < 100; ++i) Progress();
    for (int i = 0; i < 2000; ++i) Progress();
    EXPECT_GE(sent, 100) << "round " << round;
    EXPECT_LE(sent, 200) << "round " << round;
    for (uint32_t i = 0; i < 300; ++i) {
      groups_[1]->Receive(0, {.window = round, .index = i}, got,
                          [&](absl::Status status) { received += status.ok(); });
    }
    for (int i = 0; i < 1000000 && (sent < 300 || received < 300); ++i) Progress();
    EXPECT_EQ(sent, 300);
    EXPECT_EQ(received, 300);
  }
}

TEST_F(PairTest, NoiseOnTheListenerHarmsNoPeer) {
  Open({});
  const auto address = *ParseSocketAddress(transports_[1]->address());
  std::vector<int> sockets;
  for (int i = 0; i < 8; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, address.get(), address.length), 0);
    const std::vector<char> noise(i * 37, static_cast<char>(i));
    ASSERT_EQ(write(fd, noise.data(), noise.size()), static_cast<ssize_t>(noise.size()));
    sockets.push_back(fd);
    for (int round = 0; round < 300; ++round) Progress();
    if (i % 2 == 0) close(fd);
  }
  std::byte sent{9}, got{0};
  bool done = false;
  groups_[0]->Send(1, {}, std::span(&sent, 1), [](absl::Status) {});
  groups_[1]->Receive(0, {}, std::span(&got, 1), [&](absl::Status status) { done = status.ok(); });
  for (int i = 0; i < 1000000 && !done; ++i) Progress();
  EXPECT_TRUE(done);
  EXPECT_EQ(got, sent);
  for (size_t i = 1; i < sockets.size(); i += 2) close(sockets[i]);
}

}  // namespace
}  // namespace remesh::worker
