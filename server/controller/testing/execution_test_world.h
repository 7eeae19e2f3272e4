// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "server/controller/executions/execution.h"
#include "service/rpc/error_info.h"

namespace remesh::server {

// Hosts "a" and "b" receive, "c" only gives.
class ExecutionTest : public testing::Test {
 protected:
  using Step = Execution::Step;
  using seconds = std::chrono::seconds;

  static ExecutionSpec Spec() {
    ExecutionSpec spec{.fingerprint = "f",
                       .window_bytes = 1,
                       .grant_ahead = 2,
                       .deadline = seconds(100),
                       .stall_timeout = seconds(30),
                       .quiesce_timeout = seconds(10)};
    spec.attempt.set_execution("jobs/j/executions/e");
    spec.attempt.set_attempt(1);
    for (const char* host : {"a", "b", "c"}) {
      Participant& participant = spec.participants.emplace_back();
      participant.host = host;
      if (*host == 'c') continue;
      auto target = std::make_shared<PlacedState>();
      target->hosts[host];
      participant.target = std::move(target);
    }
    return spec;
  }

  static v1::Execution Resource(int windows = 5) {
    v1::Execution resource;
    resource.set_name("jobs/j/executions/e");
    resource.set_state("jobs/j/states/s");
    resource.set_source_generation(1);
    resource.set_target_generation(2);
    resource.set_windows(windows);
    return resource;
  }

  static PeerTable Peers(v1::Communicators communicators = {}) {
    return PeerTable(std::vector<v1::PeerEntry>(3), {}, std::vector<bool>(3, true),
                     std::move(communicators));
  }
  void Start() { execution_.Start(Peers(), out_); }
  void AllPrepared() {
    for (const char* host : kHosts) execution_.OnPrepared(host, now_, out_);
  }
  void Done(const char* host, int window) {
    v1::WindowDone done;
    done.set_window(window);
    execution_.OnWindowDone(host, done, now_, out_);
  }
  void AllTransferred() {
    for (int window = 0; window < 5; ++window) {
      for (const char* host : kHosts) Done(host, window);
    }
  }
  void AllVerified() {
    for (const char* host : kHosts) execution_.OnVerified(host, now_, out_);
  }
  void UntilDeciding() {
    Start();
    AllPrepared();
    AllTransferred();
    AllVerified();
  }
  void UntilCommitting() {
    UntilDeciding();
    execution_.OnSaved(Save::kDecision, now_, out_);
  }

  // Takes what was asked for since the last call: "a:prepare b:grant save-decision ...".
  std::string Taken() {
    std::string text;
    for (const ExecutionAction& action : std::exchange(out_, {})) {
      if (!text.empty()) text += " ";
      if (const SendCommand* send = std::get_if<SendCommand>(&action)) {
        text += send->host + ":" +
                v1::AttachResponse::descriptor()
                    ->FindFieldByNumber(send->message.command_case())
                    ->name();
      } else if (const SendPrepare* prepare = std::get_if<SendPrepare>(&action)) {
        text += prepare->host + ":prepare";
      } else if (const Save* save = std::get_if<Save>(&action)) {
        text += *save == Save::kDecision  ? "save-decision"
                : *save == Save::kSuccess ? "save-success"
                                          : "save-failure";
      } else {
        text += "give-up-on:" + std::get<GiveUpOn>(action).host;
      }
    }
    return text;
  }

  // What a worker answers to a Commit of shards that it does not have.
  static google::rpc::Status NotVerified() {
    return service::StatusToProto(MakeError(absl::StatusCode::kFailedPrecondition, "not verified",
                                            {.reason = "NOT_VERIFIED", .metadata = {}}));
  }

  std::string Reason() const {
    return GetErrorInfo(service::StatusFromProto(execution_.resource().error())).reason;
  }

  static constexpr const char* kHosts[] = {"a", "b", "c"};
  Moment now_{.steady = seconds(1), .wall = absl::UnixEpoch()};
  ExecutionActions out_;
  Execution execution_{Spec(), Resource()};
  const absl::Status lost_ =
      MakeError(absl::StatusCode::kUnavailable, "lost", {.reason = "WORKER_LOST", .metadata = {}});
};

}  // namespace remesh::server
