// SPDX-License-Identifier: Apache-2.0
//
// How callers share the controller's strand.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "server/testing/server_fixture.h"

namespace remesh::server {
namespace {

// Names in the order in which they were added.
class Order {
 public:
  // Returns how many names there are now.
  size_t Add(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    names_.push_back(name);
    return names_.size();
  }
  std::vector<std::string> names() {
    absl::MutexLock lock(&mutex_);
    return names_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

// Keeps the status with which its watch ended.
class WatchEnd : public WatchSink {
 public:
  explicit WatchEnd(std::function<void()> on_end) : on_end_(std::move(on_end)) {}

  void Offer(std::shared_ptr<const Reply>) override {}
  void End(const absl::Status& status) override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(end_.has_value());
      end_ = status;
    }
    on_end_();
  }
  bool Ended() override { return end().has_value(); }

  std::optional<absl::Status> end() {
    absl::MutexLock lock(&mutex_);
    return end_;
  }

 private:
  const std::function<void()> on_end_;
  absl::Mutex mutex_;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// A worker's stream that keeps what happens to it.
class NotedStream : public WorkerSink {
 public:
  NotedStream(Order& order, const std::string& caller, bool ended = false)
      : order_(order), caller_(caller), ended_(ended) {}

  bool Begin(StreamId stream) override {
    stream_ = stream;
    order_.Add(caller_);
    return !ended_;
  }
  void Send(v1::AttachResponse) override {}
  void SendLater(LaterCommands) override {}
  void Close(const absl::Status&) override { closed_ = true; }

  StreamId stream() const { return stream_; }
  bool closed() const { return closed_; }

 private:
  Order& order_;
  const std::string caller_;
  const bool ended_;
  std::atomic<StreamId> stream_ = 0;
  std::atomic<bool> closed_ = false;
};

// The stream of a worker with one device, which says what it is sent.
class CommandedStream : public WorkerSink {
 public:
  CommandedStream(Core& core, std::string host, int64_t device, std::function<void()> on_welcome,
                  std::function<void()> on_assigned)
      : core_(core),
        host_(std::move(host)),
        device_(device),
        on_welcome_(std::move(on_welcome)),
        on_assigned_(std::move(on_assigned)) {}

  bool Begin(StreamId stream) override {
    stream_ = stream;
    StreamMessage first{.stream = stream};
    *first.message.mutable_register_() = WorkerIdentity(host_, device_, 1);
    core_.OnStreamMessage(
        std::move(first), [] {}, host_);
    return true;
  }
  void Send(v1::AttachResponse message) override {
    if (message.has_welcome()) on_welcome_();
    if (message.has_assign_state()) on_assigned_();
  }
  void SendLater(LaterCommands commands) override {
    for (v1::AttachResponse& message : commands.make()) Send(std::move(message));
  }
  void Close(const absl::Status&) override { closed_ = true; }

  StreamId stream() const { return stream_; }
  bool closed() const { return closed_; }

 private:
  Core& core_;
  const std::string host_;
  const int64_t device_;
  std::atomic<StreamId> stream_ = 0;
  std::atomic<bool> closed_ = false;
  const std::function<void()> on_welcome_, on_assigned_;
};

class TurnsTest : public ServerFixture {
 protected:
  static constexpr char kNone[] = "jobs/a/states/none";  // a watch of it ends at once

  // Adds the caller to order_ when the call is answered.
  void AskFor(const std::string& caller) {
    core_->Call(
        v1::ListWorkersRequest(),
        [this, caller](const absl::StatusOr<Reply>&) { order_.Add(caller); }, caller);
  }
  // Adds the caller to order_ when the watch has ended.
  std::shared_ptr<WatchEnd> WatchFor(const std::string& caller) {
    auto sink = std::make_shared<WatchEnd>([this, caller] { order_.Add(caller); });
    core_->Watch(kNone, sink, caller);
    return sink;
  }
  // Adds the caller to order_ when the stream may begin.
  std::shared_ptr<NotedStream> OpenFor(const std::string& caller, bool ended = false) {
    auto stream = std::make_shared<NotedStream>(order_, caller, ended);
    core_->OpenStream(stream, caller);
    return stream;
  }
  // Adds the caller to order_ when the first message of a stream has been handled.
  void RegisterFor(const std::string& caller) {
    core_->OnStreamMessage(
        {}, [this, caller] { order_.Add(caller); }, caller);
  }
  // Waits until `count` calls, watches and streams have been added to order_.
  void AwaitAll(size_t count) {
    EXPECT_TRUE(Eventually([&] { return order_.names().size() >= count; }));
  }
  std::vector<std::string> First(size_t count) {
    const std::vector<std::string> all = order_.names();
    return {all.begin(), all.begin() + static_cast<ptrdiff_t>(std::min(count, all.size()))};
  }

  // How many were added to order_ before this one.
  size_t PlaceOf(const std::string& name) {
    const std::vector<std::string> all = order_.names();
    return std::find(all.begin(), all.end(), name) - all.begin();
  }

  Order order_;
};

// Regression: calls ran in the order of their arrival, so a thousand calls of one caller kept other
// callers and workers waiting.
TEST_F(TurnsTest, OneCallersManyCallsKeepNoOtherCallerWaiting) {
  {
    const Holding holding(*core_);
    for (int i = 0; i < 100; ++i) AskFor("many");
    for (const char* caller : {"few", "few", "one"}) AskFor(caller);
  }
  AwaitAll(103);
  EXPECT_EQ(First(5), std::vector<std::string>({"many", "few", "one", "many", "few"}));
}

// Regression: a watch took no turn, so a caller who began and ended watches in a loop kept every
// call and the workers waiting.
TEST_F(TurnsTest, OneCallersManyWatchesKeepNoOtherCallerWaiting) {
  {
    const Holding holding(*core_);
    for (int i = 0; i < 100; ++i) WatchFor("many");
    AskFor("few");
    WatchFor("few");
    AskFor("one");
  }
  AwaitAll(103);
  EXPECT_EQ(First(5), std::vector<std::string>({"many", "few", "one", "many", "few"}));
}

// Regression: streams took no turn, so a caller who opened and reset streams in a loop kept every
// call and the workers waiting.
TEST_F(TurnsTest, OneCallersManyNewStreamsKeepNoOtherCallerWaiting) {
  {
    const Holding holding(*core_);
    for (int i = 0; i < 100; ++i) OpenFor("many");
    for (int i = 0; i < 100; ++i) RegisterFor("many");
    OpenFor("worker");
    RegisterFor("worker");
    AskFor("one");
  }
  AwaitAll(203);
  EXPECT_EQ(First(5), std::vector<std::string>({"many", "worker", "one", "many", "worker"}));
}

TEST_F(TurnsTest, EndsOfManyNewStreamsKeepNoOtherCallerWaiting) {
  {
    const Holding holding(*core_);
    for (int i = 0; i < 100; ++i) core_->OnStreamEnded(1'000'000 + i, "many");
    AskFor("many");  // after the ends
    OpenFor("worker");
    AskFor("one");
  }
  AwaitAll(3);
  EXPECT_EQ(order_.names(), std::vector<std::string>({"worker", "one", "many"}));
}

TEST_F(TurnsTest, AStreamThatEndsBeforeItsTurnDoesNotBegin) {
  const auto gone = OpenFor("caller", /*ended=*/true);
  const auto open = OpenFor("caller");
  AwaitAll(2);
  core_->Shutdown();
  EXPECT_FALSE(gone->closed());
  EXPECT_TRUE(open->closed());
  const auto late = OpenFor("caller");
  AwaitAll(3);
  EXPECT_TRUE(late->closed());
}

// A worker that says something and then ends its stream must be handled.
TEST_F(TurnsTest, TheEndOfAStreamThatWasHeardComesAfterItsMessages) {
  AttachWorkers();  // from now on no message waits for the journal
  const auto stream = OpenFor("caller");
  AwaitAll(1);
  absl::Notification refused;
  {
    const Holding holding(*core_);
    core_->Call(
        v1::ListWorkersRequest(), [](const absl::StatusOr<Reply>&) {}, "caller");
    // No register: the controller closes the stream.
    core_->OnStreamMessage({.stream = stream->stream()}, [&] { refused.Notify(); });
    core_->OnStreamEnded(stream->stream());
  }
  refused.WaitForNotification();
  EXPECT_TRUE(stream->closed());
}

TEST_F(TurnsTest, ACallersCallsAndWatchesKeepTheirOrder) {
  std::shared_ptr<WatchEnd> watch;
  absl::Notification answered;
  {
    const Holding holding(*core_);
    watch = WatchFor("caller");
    core_->Call(
        v1::ListWorkersRequest(),
        [&](const absl::StatusOr<Reply>&) {
          EXPECT_TRUE(watch->Ended());
          answered.Notify();
        },
        "caller");
  }
  answered.WaitForNotification();
}

// Regression: calls of callers who had gone were made, one after the other.
TEST_F(TurnsTest, ACallWhoseCallerHasGoneIsNotMade) {
  absl::Status status;
  absl::Notification answered;
  {
    const Holding holding(*core_);
    core_->Call(
        v1::ListWorkersRequest(),
        [&](const absl::StatusOr<Reply>& reply) {
          status = reply.status();
          answered.Notify();
        },
        "caller", [] { return true; });
  }
  answered.WaitForNotification();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

// Regression: a question about a move was planned to the end, with no caller left, however many
// callers asked and left.
TEST_F(TurnsTest, AMoveThatIsOnlyAskedIsNotPlannedForACallerWhoHasGone) {
  AttachWorkers();
  CreateReadyState();
  v1::StartExecutionRequest request;
  request.set_state(kState);
  request.set_expected_generation(1);
  request.set_validate_only(true);
  *request.mutable_targets() = MakeTargets(kColumns);
  absl::Status status;
  absl::Notification answered;
  std::atomic<int> looks = 0;
  core_->Call(
      request,
      [&](const absl::StatusOr<Reply>& reply) {
        status = reply.status();
        answered.Notify();
      },
      "caller", [&] { return ++looks > 1; });  // goes after the call was made
  answered.WaitForNotification();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(core_->plans().stats().memory().entries(), 0);
}

TEST_F(TurnsTest, AWatchThatEndsBeforeItsTurnIsSkipped) {
  {
    const Holding holding(*core_);
    const auto watch = WatchFor("caller");
    watch->End(absl::CancelledError("gone"));  // a second End fails the test
    AskFor("caller");
  }
  AwaitAll(2);
}

// Regression: calls that had come before a worker's messages waited, each, for all messages that
// the worker sent in the meantime.
TEST_F(TurnsTest, SixteenCallsAreMadeBeforeOtherTasksOfTheStrand) {
  {
    const Holding holding(*core_);  // is the first of sixteen
    for (int i = 0; i < 40; ++i) AskFor("call");
    for (int i = 0; i < 5; ++i) core_->OnStreamMessage({}, [&] { order_.Add("message"); });
  }
  AwaitAll(45);
  std::vector<std::string> expected(15, "call");
  expected.insert(expected.end(), 5, "message");
  expected.insert(expected.end(), 25, "call");
  EXPECT_EQ(order_.names(), expected);
}

// Regression: a call waited for all messages that a thousand workers had sent in the middle of a
// move.
TEST_F(TurnsTest, ACallWaitsForAFewMessagesOfAllThatWait) {
  constexpr int kMessages = 1000;
  absl::Notification held;
  absl::Notification free;
  core_->OnStreamMessage({}, [&] {
    held.Notify();
    free.WaitForNotification();
  });
  held.WaitForNotification();
  for (int i = 0; i < kMessages; ++i) {
    core_->OnStreamMessage({}, [this] { order_.Add("message"); });
  }
  AskFor("caller");
  free.Notify();
  AwaitAll(kMessages + 1);
  EXPECT_LE(PlaceOf("caller"), 100);
}

// Regression: what one event sent to all hosts of a state was sent before any other call was made.
TEST_F(TurnsTest, ACallWaitsForAFewCommandsOfAllThatAnEventSends) {
  constexpr int kHosts = 300;
  absl::BlockingCounter attached(kHosts);
  std::vector<std::shared_ptr<CommandedStream>> streams;
  for (int i = 0; i < kHosts; ++i) {
    streams.push_back(std::make_shared<CommandedStream>(
        *core_, absl::StrCat("host", i), i, [&] { attached.DecrementCount(); },
        [this] {
          if (order_.Add("command") == 1) AskFor("caller");
        }));
    core_->OpenStream(streams.back(), absl::StrCat("caller", i));
  }
  attached.Wait();
  v1::State state;
  state.set_name(kState);
  v1::StateArray& array = *state.mutable_spec()->add_arrays();
  array.set_name("w");
  array.add_shape(kHosts);
  array.set_element_type("f32");
  array.mutable_sharding()->set_hlo_text(absl::StrCat("{devices=[", kHosts, "]<=[", kHosts, "]}"));
  auto& range = *array.mutable_sharding()->mutable_devices()->mutable_range();
  range.set_count(kHosts);
  ASSERT_TRUE(Create(state).ok());
  AwaitAll(kHosts + 1);
  EXPECT_LE(PlaceOf("caller"), 100);
}

// Regression: with many messages before its heartbeat, a host counted as silent.
TEST_F(TurnsTest, AHostIsNotLostWhileItsHeartbeatWaits) {
  StopServer();
  core_options_.controller.lost_after = std::chrono::seconds(1);
  StartServer();
  absl::Notification attached, pushed, heard;
  std::atomic<bool> lost = false;
  const auto stream = std::make_shared<CommandedStream>(
      *core_, "host", 0,
      [&] {
        attached.Notify();
        pushed.WaitForNotification();  // the strand stands still: no tick
      },
      [] {});
  core_->OpenStream(stream, "caller");
  attached.WaitForNotification();
  for (int i = 0; i < 1300; ++i) {
    core_->OnStreamMessage({}, [] { absl::SleepFor(absl::Milliseconds(1)); });
  }
  StreamMessage beat{.stream = stream->stream()};
  beat.message.mutable_heartbeat();
  core_->OnStreamMessage(std::move(beat), [&] {
    lost = stream->closed();
    heard.Notify();
  });
  pushed.Notify();
  heard.WaitForNotification();
  EXPECT_FALSE(lost);
}

// Calls that come again and again, from many callers, leave every turn of the strand to a message.
TEST_F(TurnsTest, AFloodOfCallsHoldsUpAMessageForOneTurn) {
  constexpr int kCallers = 100, kBefore = 1000;
  std::atomic<int> calls = 0, at_message = 0;
  std::atomic<bool> ends = false;
  absl::Notification heard;
  std::function<void(const std::string&)> ask = [&](const std::string& caller) {
    core_->Call(
        v1::ListWorkersRequest(),
        [&, caller](const absl::StatusOr<Reply>&) {
          if (++calls == kBefore) {
            core_->OnStreamMessage({}, [&] {
              at_message = calls.load();
              heard.Notify();
            });
          }
          if (!ends) ask(caller);
        },
        caller);
  };
  for (int i = 0; i < kCallers; ++i) ask(absl::StrCat("caller", i));
  heard.WaitForNotification();
  EXPECT_LE(at_message, kBefore + 32);
  ends = true;
  core_->Shutdown();  // no call is answered after it
}

// The same for heartbeats, which do not wake the strand.
TEST_F(TurnsTest, AFloodOfCallsHoldsUpAHeartbeatUntilTheNextTick) {
  std::atomic<bool> ends = false;
  absl::Notification heard;
  std::function<void(const std::string&)> ask = [&](const std::string& caller) {
    core_->Call(
        v1::ListWorkersRequest(),
        [&, caller](const absl::StatusOr<Reply>&) {
          if (!ends) ask(caller);
        },
        caller);
  };
  for (int i = 0; i < 100; ++i) ask(absl::StrCat("caller", i));
  StreamMessage beat;
  beat.message.mutable_heartbeat();
  core_->OnStreamMessage(std::move(beat), [&] { heard.Notify(); });
  heard.WaitForNotification();
  ends = true;
  core_->Shutdown();
}

TEST_F(TurnsTest, ShutdownEndsWatchesThatWait) {
  std::vector<std::shared_ptr<WatchEnd>> watches;
  absl::Notification begun;
  std::thread shutdown;
  {
    const Holding holding(*core_);
    // The first one's end lasts until Shutdown is called, while the others wait.
    for (int i = 0; i < 300; ++i) {
      watches.push_back(std::make_shared<WatchEnd>([&] { begun.WaitForNotification(); }));
      core_->Watch(kNone, watches.back(), "caller");
    }
    shutdown = std::thread([&] {
      begun.Notify();
      core_->Shutdown();
    });
  }
  shutdown.join();
  for (const auto& watch : watches) EXPECT_TRUE(watch->Ended());
  const auto late = WatchFor("caller");
  AwaitAll(1);
  EXPECT_EQ(late->end()->code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace remesh::server
