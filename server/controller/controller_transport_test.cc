// SPDX-License-Identifier: Apache-2.0
// By which transports the hosts of a move may reach each other, and what that asks of other moves.
#include "server/controller/testing/controller_moves_test_world.h"

namespace remesh::server {
namespace {

// Hosts with two devices each, and two states that move on different ones.
class ControllerTransportTest : public ControllerMovesTest {
 protected:
  // Starts both moves; returns how often b was told to prepare.
  int StartTwo(const std::string& transport) {
    for (const char* host : {"a", "b"}) {
      v1::Register registration = Identity(host);
      registration.add_devices()->set_id(host[0] + 100);
      *registration.add_manifests() = Manifest(uid_, 1);
      registration.add_data_addresses()->set_transport(transport);
      (*host == 'a' ? a_ : b_) = Attach(registration);
    }
    CreateState create{.request = {}, .placed = Place(SpecOn({"a", "b"}))};
    create.request.mutable_state()->set_name("jobs/j/states/other");
    const std::string uid = std::get<v1::State>(*replies_.at(Ask(create))).uid();
    Seal(a_, Manifest(uid, 1, "jobs/j/states/other"));
    Seal(b_, Manifest(uid, 1, "jobs/j/states/other"));
    first_ = StartMove();
    StartMove(1, "jobs/j/states/other", {"a", "b"}, /*device=*/1);
    return Count(b_, Command::kPrepare);
  }
  void CancelFirst() {
    v1::CancelExecutionRequest cancel;
    cancel.set_name(first_);
    Ask(cancel);
    v1::AttachRequest message;
    *message.mutable_quiesced()->mutable_attempt() = Attempt(first_);
    Send(a_, message);
    Send(b_, message);
  }
  std::string first_;
};

TEST_F(ControllerTransportTest, OtherDevicesOfAHostServeAnotherExecution) {
  EXPECT_EQ(StartTwo("tcp"), 2);
}

// Regression: both executions opened communicators, in a different order on each host, and waited
// for each other.
TEST_F(ControllerTransportTest, OverNcclAHostServesOneExecutionAtATime) {
  EXPECT_EQ(StartTwo("nccl"), 1);
  CancelFirst();
  EXPECT_EQ(Count(b_, Command::kPrepare), 2);
}

// Regression: both hosts reserved memory, and then failed the move.
TEST_F(ControllerTransportTest, HostsWithoutACommonTransportAreRefusedAtTheStart) {
  StartServer();
  for (const auto& [host, transport] : {std::pair("a", "nccl"), std::pair("b", "tcp")}) {
    v1::Register registration = Identity(host);
    *registration.add_manifests() = Manifest(uid_, 1);
    registration.add_data_addresses()->set_transport(transport);
    (*host == 'a' ? a_ : b_) = Attach(registration);
  }
  const absl::Status refused = TryMove(1, kState, {"a", "b"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(), "hosts a and b have no transport in common: nccl and tcp");
  EXPECT_EQ(GetErrorInfo(refused).reason, "NO_COMMON_TRANSPORT");
  EXPECT_EQ(GetErrorInfo(refused).metadata["host"], "b");
  EXPECT_EQ(Count(a_, Command::kPrepare) + Count(b_, Command::kPrepare), 0);
}

// A host with GPUs reaches one without by TCP. The third has a worker that lists NCCL alone.
TEST_F(ControllerTransportTest, EveryTwoHostsNeedATransportInCommon) {
  StartServer();
  using Transports = std::vector<std::string>;
  const auto attach = [&](const std::string& host, const Transports& transports) {
    v1::Register registration = Identity(host);
    *registration.add_manifests() = Manifest(uid_, 1);
    for (const std::string& transport : transports)
      registration.add_data_addresses()->set_transport(transport);
    return Attach(registration);
  };
  a_ = attach("a", {"nccl", "tcp"});
  b_ = attach("b", {"tcp"});
  attach("c", {"nccl"});
  const absl::Status refused = TryMove(1, kState, {"a", "b", "c"}).status();
  EXPECT_EQ(refused.message(), "hosts b and c have no transport in common: tcp and nccl");
  const auto started = TryMove(1, kState, {"a", "b"});
  EXPECT_TRUE(started.ok()) << started.status();
}

class ControllerEncryptionTest : public ControllerMovesTest {
 protected:
  // a and b come back with addresses of these transports.
  void Return(const std::string& of_a, const std::string& of_b) {
    options_.encrypts_data = true;
    StartServer();
    for (const auto& [host, transport] : {std::pair("a", of_a), std::pair("b", of_b)}) {
      v1::Register registration = Identity(host);
      *registration.add_manifests() = Manifest(uid_, 1);
      for (const std::string& name : {std::string("tcp"), transport})
        registration.add_data_addresses()->set_transport(name);
      (*host == 'a' ? a_ : b_) = Attach(registration);
    }
  }
  void Reconfigured(bool encrypts) {
    auto options = std::make_shared<LiveOptions>();
    options->execution_deadline = options_.execution_deadline;
    options->states_max = options_.states_max;
    options->finished_executions_max = options_.finished_executions_max;
    options->encrypts_data = encrypts;
    Handle(Reconfigure{.call = ++last_reconfigured_, .options = options});
  }
  CallId last_reconfigured_ = 1'000'000;
};

TEST_F(ControllerEncryptionTest, OnlyAddressesThatEncryptAreTold) {
  Return("tcp+aes-256-gcm", "tcp+aes-256-gcm");
  StartMove();
  ASSERT_EQ(sent_[b_].back().command_case(), Command::kPrepare);
  const v1::Prepare prepare = sent_[b_].back().prepare();
  ASSERT_EQ(prepare.peers_size(), 2);
  for (const v1::PeerEntry& peer : prepare.peers()) {
    ASSERT_EQ(peer.data_addresses_size(), 1);
    EXPECT_EQ(peer.data_addresses(0).transport(), "tcp+aes-256-gcm");
  }
}

TEST_F(ControllerEncryptionTest, AHostThatDoesNotEncryptTakesPartInNothing) {
  Return("tcp+aes-256-gcm", "nccl");
  const absl::Status refused = TryMove(1, kState, {"a", "b"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorInfo(refused).reason, "DATA_NOT_ENCRYPTED");
  EXPECT_EQ(GetErrorInfo(refused).metadata["host"], "b");
}

// Regression: both hosts prepared, and one failed the move because the other had no address of its
// transport.
TEST_F(ControllerEncryptionTest, AQueuedMoveIsToldWhyWhenEncryptionIsTurnedOn) {
  Return("tcp+aes-256-gcm", "nccl");
  Reconfigured(false);
  CreateState create{.request = {}, .placed = Place(SpecOn({"a", "b"}))};
  create.request.mutable_state()->set_name("jobs/j/states/other");
  const std::string uid = std::get<v1::State>(*replies_.at(Ask(create))).uid();
  Seal(a_, Manifest(uid, 1, "jobs/j/states/other"));
  Seal(b_, Manifest(uid, 1, "jobs/j/states/other"));
  const std::string first = StartMove();
  v1::GetExecutionRequest get;
  get.set_name(StartMove(1, "jobs/j/states/other"));  // on the same devices
  Reconfigured(true);
  v1::CancelExecutionRequest cancel;
  cancel.set_name(first);
  Ask(cancel);
  v1::AttachRequest message;
  *message.mutable_quiesced()->mutable_attempt() = Attempt(first);
  Send(a_, message);
  Send(b_, message);
  const auto failed = std::get<v1::Execution>(*replies_.at(Ask(get)));
  EXPECT_EQ(failed.phase(), v1::Execution::FAILED);
  EXPECT_NE(failed.error().message().find("cannot encrypt"), std::string::npos)
      << failed.error().message();
  EXPECT_EQ(Count(b_, Command::kPrepare), 1);
}

}  // namespace
}  // namespace remesh::server
