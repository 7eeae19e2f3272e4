// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/controller/testing/controller_test_world.h"

namespace remesh::server {

// State s, READY at generation 1 on a and b, moves to generation 2 on a and b.
class ControllerMovesTest : public ControllerTestWorld {
 protected:
  void SetUp() override {
    a_ = Attach("a");
    b_ = Attach("b");
    uid_ = Create({"a", "b"}).uid();
    Seal(a_, Manifest(uid_, 1));
    Seal(b_, Manifest(uid_, 1));
  }

  static std::shared_ptr<const PlacedState> WithBytes(const std::vector<std::string>& hosts,
                                                      int64_t bytes) {
    auto placed = std::make_shared<PlacedState>(*Place(SpecOn(hosts)));
    placed->total_bytes = bytes;
    return placed;
  }
  // Returns the name.
  std::string StartMove(int64_t generation = 1, const std::string& state = kState,
                        const std::vector<std::string>& target = {"a", "b"}, int32_t device = 0) {
    const auto reply = TryMove(generation, state, target, device);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? std::get<v1::Execution>(*reply).name() : "";
  }
  absl::StatusOr<Reply> TryMove(int64_t generation, const std::string& state,
                                const std::vector<std::string>& target, int32_t device = 0,
                                int64_t bytes = 0) {
    v1::StartExecutionRequest request;
    request.set_state(state);
    request.set_expected_generation(generation);
    request.set_plan("plans/p");
    const CallId call = Ask(request);
    PlannedExecution move;
    move.target = WithBytes(target, bytes);
    std::set<std::string> hosts = {"a", "b"};
    hosts.insert(target.begin(), target.end());
    for (const std::string& host : hosts) {
      move.hosts[host] = {.device_ids = {device}, .local_devices = {device}};
    }
    move.plan = "plans/p";
    move.summary.set_windows(windows_);
    Handle(Planned{.id = plannings_.back(), .move = move});
    return replies_.at(call);
  }
  void Drain(const std::string& host) {
    v1::DrainWorkerRequest request;
    request.set_name("workers/" + host);
    EXPECT_TRUE(replies_.at(Ask(request)).ok());
  }
  v1::AttemptId Attempt(const std::string& name) {
    v1::AttemptId attempt;
    attempt.set_execution(name);
    attempt.set_attempt(1);
    return attempt;
  }
  void Answer(StreamId stream, v1::AttachRequest::EventCase kind, const std::string& name,
              int64_t generation = 2) {
    v1::AttachRequest message;
    if (kind == v1::AttachRequest::kPrepared) {
      *message.mutable_prepared()->mutable_attempt() = Attempt(name);
    } else if (kind == v1::AttachRequest::kVerified) {
      *message.mutable_verified()->mutable_attempt() = Attempt(name);
    } else {
      *message.mutable_committed()->mutable_attempt() = Attempt(name);
      *message.mutable_committed()->mutable_manifest() = Written(generation, name);
    }
    Send(stream, message);
  }
  v1::StateManifest Written(int64_t generation, const std::string& execution,
                            v1::ShardPhase phase = v1::SHARD_PHASE_READY) {
    v1::StateManifest manifest = Manifest(uid_, generation);
    manifest.set_execution(execution);
    manifest.set_phase(phase);
    return manifest;
  }
  std::string UntilCommitting() {
    const std::string name = StartMove();
    for (const auto kind : {v1::AttachRequest::kPrepared, v1::AttachRequest::kVerified}) {
      for (const StreamId stream : {a_, b_}) Answer(stream, kind, name);
    }
    EXPECT_EQ(Phase(name), v1::Execution::COMMITTING);
    return name;
  }
  v1::Execution::Phase Phase(const std::string& name) {
    v1::GetExecutionRequest request;
    request.set_name(name);
    return std::get<v1::Execution>(*replies_.at(Ask(request))).phase();
  }
  std::string Resolve(const std::string& name) {
    v1::ResolveExecutionRequest request;
    request.set_name(name);
    request.set_resolution(v1::ResolveExecutionRequest::KEEP_SOURCE);
    return GetErrorInfo(replies_.at(Ask(request)).status()).reason;
  }

  // The host knows of a later journal than this one.
  void AttachWitness(const std::string& host) {
    v1::Register later = Identity(host);
    later.mutable_position()->set_leadership("a later one");
    *later.add_manifests() = Manifest(uid_, 1);
    Attach(later);
    ASSERT_TRUE(controller_->gauges().journal_behind);
  }

  StreamId a_ = 0, b_ = 0;
  std::string uid_;
  int32_t windows_ = 0;  // of plans
  uint64_t beats_ = 0;
};

}  // namespace remesh::server
