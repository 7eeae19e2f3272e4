// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/controller/executions/executions.h"
#include "server/controller/executions/starts.h"
#include "server/controller/testing/states_test_world.h"

namespace remesh::server {

// The machines up to starts.
class ExecutionsTestWorld : public StatesTestWorld {
 protected:
  // Creates a READY state on host a.
  void SetUp() override {
    Attach("a");
    Attach("b");
    uid_ = Create({"a"});
    membership_.Hold("a", Manifest(kState, uid_, 1));
    Clear();
  }

  static v1::StartExecutionRequest Request(const std::string& request_id = "") {
    v1::StartExecutionRequest request;
    request.set_state(kState);
    request.set_expected_generation(1);
    request.mutable_targets();
    request.set_request_id(request_id);
    return request;
  }
  // A plan for a move from a to `host`.
  static PlannedExecution MoveTo(const std::string& host, int32_t windows,
                                 double predicted_seconds) {
    PlannedExecution move;
    move.target = PlaceOn({host});
    move.plan = "plans/p";
    move.summary.set_windows(windows);
    move.summary.set_predicted_seconds(predicted_seconds);
    for (const std::string& name : {std::string("a"), host}) {
      move.hosts[name] = PlaceOn({name})->hosts.at(name).devices;
    }
    return move;
  }
  // Starts an execution and returns its name.
  std::string Launch(const std::string& host = "b", int32_t windows = 0,
                     double predicted_seconds = 0) {
    starts_.Start(10, Request(), now_, out_);
    std::optional<server::Launch> launch = starts_.OnPlanned(
        {.id = Did<StartPlanning>().back().id, .move = MoveTo(host, windows, predicted_seconds)},
        now_, out_);
    EXPECT_TRUE(launch.has_value());
    const std::string name = launch->entry.execution.resource().name();
    states_.BeginExecution(kState, name, nullptr);
    membership_.Keep(launch->reliance.hosts);
    executions_.Add(std::move(launch->entry));
    return name;
  }
  void Stored(const std::string& name) {
    starts_.OnStored(name, out_);
    executions_.OnStored(name, now_, out_);
  }
  // Every host's worker reports that it committed; b says what it holds, as host_events does first.
  void SendCommitted(const std::string& name) {
    membership_.Hold("b", Manifest(kState, uid_, 2));
    Send(name, [](v1::AttachRequest& message) { return message.mutable_committed(); });
  }
  // All hosts' workers report the message that `set` makes.
  template <typename Set>
  void Send(const std::string& name, Set set) {
    for (const char* host : {"a", "b"}) {
      v1::AttachRequest message;
      v1::AttemptId& attempt = *set(message)->mutable_attempt();
      attempt.set_execution(name);
      attempt.set_attempt(1);
      executions_.OnMessage(host, message, now_, out_);
    }
  }
  // The last follow-up that waits for the journal.
  ExecutionSaved LastSave() {
    const std::vector<FollowUp> waiting = out_.TakeFollowUps();
    EXPECT_FALSE(waiting.empty());
    return waiting.empty() ? ExecutionSaved() : std::get<ExecutionSaved>(waiting.back());
  }

  std::string uid_;
  Executions executions_{options_, random_, membership_, states_, commands_};
  Starts starts_{options_, random_, journal_, leadership_, membership_, states_, executions_};
};

}  // namespace remesh::server
