// SPDX-License-Identifier: Apache-2.0
// When a transport sleeps and when it does not.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/conformance/harness.h"

namespace remesh::conformance {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

TEST_P(TransportConformance, WakeEndsAWaitBeforeOrDuringIt) {
  const auto world = GetParam().make();
  const auto transport = world->NewTransport();
  const auto begin = steady_clock::now();
  transport->Wake();
  transport->Wait(seconds(60));
  std::thread waker([&] {
    std::this_thread::sleep_for(milliseconds(20));
    transport->Wake();
  });
  // A wait may end early without a cause, not late.
  transport->Wait(seconds(60));
  waker.join();
  EXPECT_LT(steady_clock::now() - begin, seconds(50));
}

TEST_P(TransportConformance, IdleTransportsSleep) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  mesh.OpenAll("g");
  const auto data = Pattern(1 << 20, 1);
  std::vector<std::byte> got(1 << 20);
  ASSERT_TRUE(mesh.Finish({mesh.Send(0, 1, Tag(1), data), mesh.Receive(1, 0, Tag(1), got)}));
  while (mesh.Progress()) {
  }
  const auto begin = steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    mesh.transport(i % 2).Wait(milliseconds(20));
    mesh.Progress();
  }
  EXPECT_GT(steady_clock::now() - begin, milliseconds(200));  // 400 if no wait ended early
}

// Two threads that sleep whenever there is nothing to do still move everything.
TEST_P(TransportConformance, ArrivalsEndAWait) {
  const auto world = GetParam().make();
  const auto a = world->NewTransport(), b = world->NewTransport();
  const std::vector<Peer> table = {{a->address(), "token a........."},
                                   {b->address(), "token b........."}};
  constexpr int kMessages = 30;
  const auto data = Pattern(300000, 1);
  std::atomic<int> finished = 0;
  const auto begin = steady_clock::now();
  auto run = [&](Transport& own, Transport& other, int self) {
    auto group = *own.Open(self, table);
    std::vector<std::vector<std::byte>> got(kMessages, std::vector<std::byte>(data.size()));
    int left = 2 * kMessages;
    for (uint32_t i = 0; i < kMessages; ++i) {
      group->Send(1 - self, Tag(i), data, [&](absl::Status s) { left -= s.ok() ? 1 : 0; });
      group->Receive(1 - self, Tag(i), got[i], [&](absl::Status s) { left -= s.ok() ? 1 : 0; });
    }
    auto drive = [&] {
      if (!own.Progress()) own.Wait(seconds(5));
    };
    while (left > 0 && steady_clock::now() - begin < seconds(60)) drive();
    EXPECT_EQ(left, 0);
    for (const auto& bytes : got) EXPECT_TRUE(bytes == data);
    ++finished;
    other.Wake();
    while (finished < 2) drive();
    group->Abort();
    while (!group->quiesced()) drive();
  };
  std::thread thread([&] { run(*b, *a, 1); });
  run(*a, *b, 0);
  thread.join();
  EXPECT_LT(steady_clock::now() - begin, seconds(60));
}

}  // namespace
}  // namespace remesh::conformance
