// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "server/coordination/action.h"
#include "server/coordination/fences.h"
#include "server/coordination/registry.h"
#include "tests/fuzz/inputs.pb.h"

namespace remesh::fuzz {

// The real registry of worlds behind the real checks of requests, a disk that is a map, and
// whatever an input says that processes and callers do. What must hold: no crash, nothing is sent
// into closed streams, no call is answered twice or waits forever, refusals have reasons, epochs
// rise, a round has one OK result in a life of the server, and nothing stays once all have gone.
class WorldsWorld {
 public:
  WorldsWorld() { Start(); }

  void Do(const WorldsInput::Step& step);
  // All go, and time passes.
  void Finish();

 private:
  using SessionId = server::coordination::SessionId;
  using CallId = server::coordination::CallId;
  using Actions = server::coordination::Actions;

  void Start();
  void Join(const WorldsInput::Step::Join& join);
  void HangUp(uint32_t stream);
  void Exchange(const v1::ExchangeRequest& request);
  void AgreeStep(const v1::AgreeStepRequest& request);
  void Leave(const v1::LeaveRequest& request);
  void Report(const v1::ReportPreemptionRequest& request);
  void List(const v1::ListWorldsRequest& request);
  void Cancel(CallId call);
  void Write(bool reaches_disk);
  void Pass(absl::Duration time);

  void NoticeEnds();
  void End(SessionId session);
  void Perform(Actions actions);
  void Take(const server::coordination::Answer& answer);
  void Take(const server::coordination::AnswerStep& answer);
  void Take(const server::coordination::EndSession& end);
  void Take(const server::coordination::SendFormed& formed);
  void Take(const server::coordination::Send& send);
  void Take(const server::coordination::SaveEpoch& save);
  void Take(const server::coordination::ForgetScope& forget);
  void Take(const server::coordination::RaiseEpoch& raised);
  void Take(const server::coordination::RoundEnded&) {}

  struct Call {
    std::string scope;
    int64_t epoch = 0;
    uint64_t sequence = 0;  // of an Exchange
  };

  // On disk.
  int64_t last_epoch_ = 0;
  std::map<std::string, server::coordination::KnownEpoch> disk_;

  // Of this life of the server.
  std::unique_ptr<server::coordination::Registry> registry_;
  std::unique_ptr<server::coordination::Fences> fences_;
  std::deque<server::coordination::SaveEpoch> saves_;
  std::map<uint32_t, SessionId> streams_;  // those that are open, by the input's numbers
  std::set<SessionId> open_;
  std::vector<SessionId> ended_;  // by the server, which has not noticed their ends yet
  std::map<CallId, Call> waiting_;
  std::map<std::tuple<std::string, int64_t, uint64_t>, std::string> results_;  // digests

  int64_t highest_epoch_ = 0;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  SessionId last_session_ = 0;
  CallId last_call_ = 0;
};

}  // namespace remesh::fuzz
