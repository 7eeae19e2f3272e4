// SPDX-License-Identifier: Apache-2.0
// Starts of moves where hosts differ in their writes, or hold copies of what others have lost.
#include "server/controller/testing/controller_moves_test_world.h"
#include "server/controller/testing/placed_test_boxes.h"

namespace remesh::server {
namespace {

class ControllerWritesTest : public ControllerMovesTest {
 protected:
  void SealAs(StreamId stream, const std::string& write) {
    v1::StateManifest manifest = Manifest(uid_, 1);
    manifest.set_write(write);
    Seal(stream, manifest);
  }
  // A second state, of which a and b each hold everything.
  v1::State CreateCopies() {
    const auto placed = PlaceBoxes(4, {{"a", 'a', 0, 4}, {"b", 'b', 0, 4}});
    CreateState create{.request = {}, .placed = placed};
    create.request.mutable_state()->set_name(kCopies);
    const v1::State state = std::get<v1::State>(*replies_.at(Ask(create)));
    for (const StreamId stream : {a_, b_}) Seal(stream, Manifest(state.uid(), 1, kCopies));
    return state;
  }
  v1::State GetCopies() {
    v1::GetStateRequest request;
    request.set_name(kCopies);
    return std::get<v1::State>(*replies_.at(Ask(request)));
  }
  static v1::StartExecutionRequest StartOf(const std::string& state) {
    v1::StartExecutionRequest request;
    request.set_state(state);
    request.set_expected_generation(1);
    request.mutable_targets();
    return request;
  }
  // A start by which `lost` is left behind.
  absl::StatusOr<Reply> MoveWithout(const std::string& state, const std::string& lost,
                                    const std::string& left) {
    v1::StartExecutionRequest request = StartOf(state);
    request.mutable_options()->add_lost_device_ids(lost[0]);
    const CallId call = Ask(request);
    PlannedExecution move;
    move.target = Place(SpecOn({left}));
    move.hosts[left] = {.device_ids = {0}, .local_devices = {0}};
    move.spared_hosts = {lost};
    move.plan = "plans/p";
    Handle(Planned{.id = plannings_.back(), .move = move});
    return replies_.at(call);
  }

  static constexpr char kCopies[] = "jobs/j/states/copies";
};

// Regression: the move took the new content of one host and the old one of another.
TEST_F(ControllerWritesTest, NoMoveStartsFromSeveralWrites) {
  SealAs(a_, "7");
  const CallId call = Ask(StartOf(kState));
  EXPECT_EQ(replies_.at(call).status().message(),
            "jobs/j/states/s is BUILDING, not READY; write 7 on a, no write on b");
  EXPECT_EQ(GetErrorInfo(replies_.at(call).status()).metadata["writes"],
            "write 7 on a, no write on b");
  SealAs(b_, "7");
  EXPECT_TRUE(TryMove(1, kState, {"a", "b"}).ok());
}

// Regression: a trainer that wrote on one host between the start and Prepare tore the target.
TEST_F(ControllerWritesTest, AMoveFailsOfWhichTheSourceIsWrittenBeforeAHostPrepares) {
  for (const StreamId stream : {a_, b_}) SealAs(stream, "6");
  const std::string name = StartMove();
  Answer(a_, v1::AttachRequest::kPrepared, name);
  SealAs(b_, "7");
  Answer(b_, v1::AttachRequest::kPrepared, name);
  for (const StreamId stream : {a_, b_}) {
    v1::AttachRequest quiesced;
    *quiesced.mutable_quiesced()->mutable_attempt() = Attempt(name);
    Send(stream, quiesced);
  }
  v1::GetExecutionRequest get;
  get.set_name(name);
  const auto ended = std::get<v1::Execution>(*replies_.at(Ask(get)));
  EXPECT_EQ(ended.phase(), v1::Execution::FAILED);  // was: TRANSFERRING
  EXPECT_EQ(ended.error().message(),
            "jobs/j/states/s was written while the move began: write 6 on a, 7 on b");
  EXPECT_EQ(Count(a_, Command::kGrant), 0);
  EXPECT_EQ(Get().phase(), v1::State::BUILDING);
}

TEST_F(ControllerWritesTest, AMoveGoesOnWhenAllHostsWereWrittenBeforeTheyPrepared) {
  const std::string name = StartMove();
  for (const StreamId stream : {a_, b_}) SealAs(stream, "7");
  for (const StreamId stream : {a_, b_}) Answer(stream, v1::AttachRequest::kPrepared, name);
  EXPECT_EQ(Count(a_, Command::kVerify), 1);
}

TEST_F(ControllerWritesTest, ADegradedStateMovesOnlyWithoutTheLostHost) {
  CreateCopies();
  Handle(StreamEnded{b_});
  EXPECT_EQ(GetCopies().phase(), v1::State::DEGRADED);
  EXPECT_EQ(Get().phase(), v1::State::LOST) << "of which b alone held a part";
  EXPECT_EQ(controller_->gauges().states[v1::State::DEGRADED], 1);
  EXPECT_EQ(controller_->gauges().states[v1::State::LOST], 1);
  const absl::Status refused = replies_.at(Ask(StartOf(kCopies))).status();
  EXPECT_EQ(GetErrorInfo(refused).reason, "STATE_NOT_READY");
  EXPECT_EQ(GetErrorInfo(refused).metadata["lost_device_ids"], "98");
  EXPECT_NE(refused.message().find("remeshctl reshard jobs/j/states/copies -f TARGETS "
                                   "--lose-absent-hosts (or --lost-devices 98) "),
            std::string::npos)
      << refused;
  EXPECT_TRUE(MoveWithout(kCopies, "b", "a").ok());
}

TEST_F(ControllerWritesTest, AStartWithLostHostsTakesShardsOfOneWrite) {
  const std::string third = "c";
  const StreamId c = Attach(third);
  const auto placed = PlaceBoxes(4, {{"a", 'a', 0, 4}, {"b", 'b', 0, 4}, {"c", 'c', 0, 4}});
  CreateState create{.request = {}, .placed = placed};
  create.request.mutable_state()->set_name(kCopies);
  const std::string uid = std::get<v1::State>(*replies_.at(Ask(create))).uid();
  for (const StreamId stream : {a_, b_, c}) {
    v1::StateManifest manifest = Manifest(uid, 1, kCopies);
    manifest.set_write(stream == a_ ? "7" : "6");
    Seal(stream, manifest);
  }
  Handle(StreamEnded{c});
  EXPECT_EQ(GetCopies().phase(), v1::State::LOST);
  const absl::Status mixed = MoveWithout(kCopies, "c", "a").status();
  EXPECT_EQ(GetErrorInfo(mixed).metadata["writes"], "write 7 on a, 6 on b");
  v1::StateManifest joined = Manifest(uid, 1, kCopies);
  joined.set_write("7");
  Seal(b_, joined);
  EXPECT_TRUE(MoveWithout(kCopies, "c", "a").ok());
}

// While it is DEGRADED, everything is decided as while it is LOST.
TEST_F(ControllerWritesTest, ADegradedStateMayBeDeletedAndFreesNothing) {
  const v1::State copies = CreateCopies();
  Handle(StreamEnded{b_});
  EXPECT_EQ(GetCopies().phase(), v1::State::DEGRADED);
  EXPECT_EQ(Count(a_, Command::kRetire), 0);
  v1::DeleteStateRequest remove;
  remove.set_name(kCopies);
  EXPECT_TRUE(replies_.at(Ask(remove)).ok());
  EXPECT_EQ(Forgotten(a_), std::vector<std::string>{copies.uid()});
}

}  // namespace
}  // namespace remesh::server
