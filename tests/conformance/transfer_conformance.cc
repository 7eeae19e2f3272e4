// SPDX-License-Identifier: Apache-2.0
// What arrives: every message, whole, at its own receive.
#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/conformance/harness.h"

namespace remesh::worker::conformance {
namespace {

using Bytes = std::vector<std::byte>;

TEST_P(TransportConformance, MovesEverySizeBothWaysWhoeverPostsFirst) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  mesh.OpenAll("g");
  uint32_t index = 0;
  for (size_t size : {0u, 1u, 4095u, 64u << 10, 4u << 20, 32u << 20}) {
    for (bool receive_first : {true, false}) {
      SCOPED_TRACE(absl::StrCat(size, receive_first ? " receive first" : " send first"));
      const Bytes there = Pattern(size, ++index), back = Pattern(size, ++index);
      Bytes got_there(size), got_back(size);
      std::vector<Outcome*> outcomes;
      auto receive = [&] {
        outcomes.push_back(mesh.Receive(1, 0, Tag(index), got_there));
        outcomes.push_back(mesh.Receive(0, 1, Tag(index), got_back));
      };
      auto send = [&] {
        outcomes.push_back(mesh.Send(0, 1, Tag(index), there));
        outcomes.push_back(mesh.Send(1, 0, Tag(index), back));
      };
      receive_first ? receive() : send();
      mesh.ProgressTimes(300);  // the early one has been through by then
      receive_first ? send() : receive();
      ASSERT_TRUE(mesh.Finish(outcomes));
      for (const Outcome* outcome : outcomes) EXPECT_TRUE(outcome->ok()) << outcome->status;
      EXPECT_TRUE(got_there == there);
      EXPECT_TRUE(got_back == back);
    }
  }
}

TEST_P(TransportConformance, PairsManyMessagesByTagInAnyOrder) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 3);
  mesh.OpenAll("g");
  std::mt19937 random(11);
  struct Message {
    int from, to;
    MessageTag tag;
    Bytes data, got;
  };
  std::vector<Message> messages;
  for (uint32_t i = 0; i < 400; ++i) {
    const int from = static_cast<int>(random() % 3),
              to = static_cast<int>((from + 1 + random() % 2) % 3);
    const size_t size = random() % 2 == 0 ? random() % 300 : random() % 100000;
    messages.push_back({from, to, {i % 3, i % 5, i % 7, i}, Pattern(size, i), Bytes(size)});
  }
  std::vector<std::pair<Message*, bool>> posts;
  for (Message& message : messages)
    posts.insert(posts.end(), {{&message, true}, {&message, false}});
  std::shuffle(posts.begin(), posts.end(), random);
  std::vector<Outcome*> outcomes;
  for (const auto& [m, send] : posts) {
    outcomes.push_back(send ? mesh.Send(m->from, m->to, m->tag, m->data)
                            : mesh.Receive(m->to, m->from, m->tag, m->got));
    if (random() % 8 == 0) mesh.Progress();
  }
  ASSERT_TRUE(mesh.Finish(outcomes));
  for (const Outcome* outcome : outcomes) EXPECT_TRUE(outcome->ok()) << outcome->status;
  for (const Message& message : messages)
    EXPECT_TRUE(message.got == message.data) << message.tag.index;
}

// Cuts `bytes` into runs, some of them empty.
std::vector<std::span<std::byte>> CutIntoRuns(Bytes& bytes, size_t longest, std::mt19937& random) {
  std::vector<std::span<std::byte>> runs;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min<size_t>(random() % (longest + 1), bytes.size() - at);
    runs.push_back(std::span(bytes).subspan(at, size));
    at += size;
  }
  return runs;
}

TEST_P(TransportConformance, RunsOfOneEndAreNotThoseOfTheOther) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  if (!mesh.transport(0).gathers()) GTEST_SKIP() << "takes no runs";
  mesh.OpenAll("g");
  std::mt19937 random(3);
  struct Message {
    Bytes data, got;
  };
  std::vector<Message> messages;
  for (const size_t size : {0u, 1u, 1000u, 65536u, 300000u, 5u << 20})
    for (int i = 0; i < 4; ++i) messages.push_back({Pattern(size, i), Bytes(size)});
  std::shuffle(messages.begin(), messages.end(), random);
  std::vector<Outcome*> outcomes;
  for (uint32_t i = 0; i < messages.size(); ++i) {
    auto& [data, got] = messages[i];
    const auto from = CutIntoRuns(data, data.size() / 900 + 3, random);
    const auto to = CutIntoRuns(got, got.size() / (1 + random() % 2000) + 3, random);
    outcomes.push_back(mesh.NewOutcome());
    mesh.group(0).SendRuns(1, Tag(i), {from.begin(), from.end()}, mesh.Watch(0, outcomes.back()));
    outcomes.push_back(mesh.NewOutcome());
    mesh.group(1).ReceiveRuns(0, Tag(i), to, mesh.Watch(1, outcomes.back()));
    if (i % 3 == 0) mesh.Progress();
  }
  ASSERT_TRUE(mesh.Finish(outcomes));
  for (const Outcome* outcome : outcomes) EXPECT_TRUE(outcome->ok()) << outcome->status;
  for (const Message& message : messages) EXPECT_TRUE(message.got == message.data);
}

TEST_P(TransportConformance, RunsAreCountedTogether) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  if (!mesh.transport(0).gathers()) GTEST_SKIP() << "takes no runs";
  mesh.OpenAll("g");
  Bytes data = Pattern(5000, 1), got(4999);
  Outcome* const send = mesh.NewOutcome();
  const auto half = std::span<const std::byte>(data).first(2500);
  mesh.group(0).SendRuns(1, Tag(1), {half, half}, mesh.Watch(0, send));
  Outcome* const receive = mesh.Receive(1, 0, Tag(1), got);
  ASSERT_TRUE(mesh.Finish({send, receive}));
  EXPECT_EQ(receive->code(), absl::StatusCode::kInvalidArgument) << receive->status;
  EXPECT_TRUE(got == Bytes(4999));
}

TEST_P(TransportConformance, DifferentSizesFailTheReceiveAndNothingElse) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  mesh.OpenAll("g");
  uint32_t index = 0;
  for (size_t sent : {100u, 1u << 20}) {
    for (int difference : {-1, 1}) {
      for (bool receive_first : {true, false}) {
        const Bytes data = Pattern(sent, 5);
        Bytes buffer(sent + difference, std::byte{0xee});
        const MessageTag tag = Tag(++index);
        Outcome *send = nullptr, *receive = nullptr;
        if (receive_first) receive = mesh.Receive(1, 0, tag, buffer);
        mesh.ProgressTimes(200);
        send = mesh.Send(0, 1, tag, data);
        mesh.ProgressTimes(200);
        if (!receive_first) receive = mesh.Receive(1, 0, tag, buffer);
        ASSERT_TRUE(mesh.Finish({send, receive}));
        EXPECT_EQ(receive->code(), absl::StatusCode::kInvalidArgument) << receive->status;
        EXPECT_TRUE(send->ok() || send->code() == absl::StatusCode::kInvalidArgument)
            << send->status;
        EXPECT_TRUE(buffer == Bytes(sent + difference, std::byte{0xee}));
      }
    }
  }
  const Bytes data = Pattern(1000, 1);
  Bytes got(1000);
  Outcome* receive = mesh.Receive(1, 0, Tag(0), got);
  ASSERT_TRUE(mesh.Finish({mesh.Send(0, 1, Tag(0), data), receive}));
  EXPECT_TRUE(receive->ok() && got == data) << receive->status;
}

TEST_P(TransportConformance, MessagesWaitForAGroupThatOpensLate) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  mesh.Open(0, "g", mesh.Table());
  const Bytes small = Pattern(10, 1), large = Pattern(1 << 20, 2);
  Bytes got_small(10), got_large(1 << 20);
  std::vector<Outcome*> outcomes = {mesh.Send(0, 1, Tag(1), small), mesh.Send(0, 1, Tag(2), large)};
  mesh.ProgressTimes(500);
  mesh.Open(1, "g", mesh.Table());
  mesh.ProgressTimes(500);
  outcomes.push_back(mesh.Receive(1, 0, Tag(2), got_large));
  outcomes.push_back(mesh.Receive(1, 0, Tag(1), got_small));
  ASSERT_TRUE(mesh.Finish(outcomes));
  for (const Outcome* outcome : outcomes) EXPECT_TRUE(outcome->ok()) << outcome->status;
  EXPECT_TRUE(got_small == small && got_large == large);
}

TEST_P(TransportConformance, SenderMuchFasterThanItsReceiverLosesNothingAndHoldsBoundedMemory) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  mesh.OpenAll("g");
  constexpr uint32_t kMessages = 12000;  // 100 MB in all
  const Bytes data = Pattern(17000, 1);
  auto sent = [&](uint32_t i) { return std::span(data).subspan(i % 600, i * 7919 % 16400); };
  std::vector<Outcome*> sends;
  for (uint32_t i = 0; i < kMessages; ++i) {
    sends.push_back(mesh.Send(0, 1, Tag(i), sent(i)));
    if (i % 8 == 0) mesh.Progress();
  }
  mesh.ProgressTimes(3000);
  int64_t ahead_bytes = 0;
  for (uint32_t i = 0; i < kMessages; ++i) {
    if (!sends[i]->done()) continue;
    ASSERT_TRUE(sends[i]->ok()) << sends[i]->status;
    ahead_bytes += static_cast<int64_t>(sent(i).size());
  }
  EXPECT_LE(ahead_bytes, PeerGroup::kAheadBytesMax);
  // From both ends in turn: no order of receives may be relied on.
  for (uint32_t i = 0; i < kMessages; ++i) {
    const uint32_t index = i % 2 == 0 ? i / 2 : kMessages - 1 - i / 2;
    Bytes got(sent(index).size());
    Outcome* receive = mesh.Receive(1, 0, Tag(index), got);
    ASSERT_TRUE(mesh.Finish({receive}));
    ASSERT_TRUE(receive->ok()) << receive->status;
    ASSERT_TRUE(std::ranges::equal(got, sent(index))) << index;
  }
  ASSERT_TRUE(mesh.Finish(sends));
  for (const Outcome* send : sends) EXPECT_TRUE(send->ok()) << send->status;
}

TEST_P(TransportConformance, CallbacksMayPostTheNextMessage) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  mesh.OpenAll("g");
  constexpr int kRounds = 50;
  std::vector<Bytes> data, got;
  for (int i = 0; i < kRounds; ++i) {
    data.push_back(Pattern(i % 2 == 0 ? 100 : 200000, i));
    got.push_back(Bytes(data.back().size()));
  }
  int sent = 0, received = 0;
  std::function<void(int)> send = [&](int i) {
    sent = i;
    if (i == kRounds) return;
    mesh.group(0).Send(1, Tag(i), data[i],
                       mesh.Watch(0, mesh.NewOutcome(), [&, i] { send(i + 1); }));
  };
  std::function<void(int)> receive = [&](int i) {
    received = i;
    if (i == kRounds) return;
    mesh.group(1).Receive(0, Tag(i), got[i],
                          mesh.Watch(1, mesh.NewOutcome(), [&, i] { receive(i + 1); }));
  };
  send(0);
  receive(0);
  // Both, because a mesh that ends still calls what waits.
  ASSERT_TRUE(mesh.ProgressUntil([&] { return sent == kRounds && received == kRounds; }));
  EXPECT_TRUE(got == data);
}

}  // namespace
}  // namespace remesh::worker::conformance
