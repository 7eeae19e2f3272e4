// SPDX-License-Identifier: Apache-2.0
// When a transport sleeps and when it does not. Nothing here measures time: a wait that does not
// end when it should outlasts the test's own limit.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/conformance/harness.h"

namespace remesh::worker::conformance {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_P(TransportConformance, WakeEndsAWaitBeforeOrDuringIt) {
  const auto world = GetParam().make();
  const auto transport = world->NewTransport();
  transport->Wake();
  transport->Wait(hours(1));
  std::thread waker([&] {
    std::this_thread::sleep_for(milliseconds(20));
    transport->Wake();
  });
  // A wait may end early without a cause, not late.
  transport->Wait(hours(1));
  waker.join();
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
  std::atomic<bool> woken = false;
  std::thread waker([&] {
    std::this_thread::sleep_for(milliseconds(200));
    woken = true;
    mesh.transport(0).Wake();
  });
  int waits = 0;
  for (; !woken; ++waits) {
    mesh.transport(0).Wait(hours(1));
    mesh.Progress();
  }
  waker.join();
  EXPECT_LE(waits, 20)
      << "some waits may end early; a transport that does not sleep does thousands";
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
  auto run = [&](Transport& own, Transport& other, int self) {
    auto group = *own.Open(self, table);
    std::vector<std::vector<std::byte>> got(kMessages, std::vector<std::byte>(data.size()));
    int left = 2 * kMessages;
    for (uint32_t i = 0; i < kMessages; ++i) {
      const auto ended = [&](absl::Status status) {
        EXPECT_TRUE(status.ok()) << status;
        --left;
      };
      group->Send(1 - self, Tag(i), data, ended);
      group->Receive(1 - self, Tag(i), got[i], ended);
    }
    auto drive = [&] {
      if (!own.Progress()) own.Wait(left > 0 ? hours(1) : seconds(5));
    };
    while (left > 0) drive();
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
}

}  // namespace
}  // namespace remesh::worker::conformance
