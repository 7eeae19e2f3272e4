// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "server/coordination/registry.h"

namespace remesh::server::coordination {

inline constexpr char kMain[] = "jobs/a/worlds/main";
inline const absl::Time kBegin = absl::UnixEpoch() + absl::Hours(1);

// A registry with a journal that writes at once, and what each session and call was told.
class RegistryTest : public testing::Test {
 protected:
  static v1::WorldEvent::Preempt PreemptBy(const std::string& who, int next_size, int64_t seconds) {
    v1::WorldEvent::Preempt preempt;
    preempt.set_by(who);
    preempt.set_next_size(next_size);
    if (seconds != 0) preempt.mutable_deadline()->set_seconds(seconds);
    return preempt;
  }
  // How many events it took.
  size_t Preempt(const v1::WorldEvent::Preempt& preempt) {
    Actions actions;
    EXPECT_TRUE(registry_.Preempt(kMain, 0, preempt, now_, actions).ok());
    return actions.size();
  }
  static Candidate CandidateOf(int process, int size, int rank = -1) {
    Candidate candidate;
    candidate.process.nonce = absl::StrCat("nonce ", process);
    candidate.process.host = absl::StrCat("host-", process);
    candidate.process.pid = 100 + process;
    candidate.min_size = candidate.max_size = size;
    candidate.rank = rank;
    candidate.deadline = kBegin + absl::Seconds(300);
    return candidate;
  }

  absl::Status Join(SessionId session, Candidate candidate, const std::string& attempt = "") {
    candidate.session = session;
    Actions actions;
    const absl::Status status = registry_.Join(kMain, attempt, candidate, now_, actions);
    Carry(std::move(actions));
    return status;
  }
  absl::Status Join(SessionId session, int process, int size, int rank = -1) {
    return Join(session, CandidateOf(process, size, rank));
  }
  // A world of processes and sessions 1 ... size.
  void Form(int size) {
    for (int i = 1; i <= size; ++i) ASSERT_TRUE(Join(i, i, size, i - 1).ok());
  }
  static Returned ReturnedOf(int process, int rank, int size, int64_t epoch) {
    Returned returned;
    returned.process = CandidateOf(process, size).process;
    returned.epoch = epoch;
    returned.rank = rank;
    returned.size = size;
    return returned;
  }
  absl::Status JoinAgain(SessionId session, int process, int rank, int size, int64_t epoch) {
    const Returned returned = ReturnedOf(process, rank, size, epoch);
    Actions actions;
    const absl::Status status = registry_.JoinAgain(kMain, session, returned, now_, actions);
    Carry(std::move(actions));
    return status;
  }
  void EndSession(SessionId session) {
    Actions actions;
    registry_.OnSessionEnd(session, now_, actions);
    Carry(std::move(actions));
  }
  // A member of a world that Form() made.
  void Leave(int process) {
    Actions actions;
    EXPECT_TRUE(registry_.Leave(CallerOf(process, 1), now_, actions).ok());
    Carry(std::move(actions));
  }
  void Exchange(CallId call, int process, int64_t epoch, uint64_t sequence = 0) {
    Actions actions;
    registry_.Exchange(call, CallerOf(process, epoch), sequence, {.name = "save"},
                       now_ + absl::Seconds(300), now_, actions);
    Carry(std::move(actions));
  }
  void AgreeStep(CallId call, int process, int64_t step, int64_t epoch = 1) {
    Actions actions;
    registry_.AgreeStep(call, CallerOf(process, epoch), step, now_ + absl::Seconds(60), now_,
                        actions);
    Carry(std::move(actions));
  }
  std::string Preempt(const std::string& by, int next_size = 0, int64_t epoch = 0) {
    v1::WorldEvent::Preempt preempt;
    preempt.set_by(by);
    preempt.set_next_size(next_size);
    Actions actions;
    const absl::Status status = registry_.Preempt(kMain, epoch, preempt, now_, actions);
    Carry(std::move(actions));
    return status.ok() ? "OK" : GetErrorInfo(status).reason;
  }
  // Rounds that wait, each with the ranks that have not come.
  std::string ListedWaiting() const {
    std::string text;
    const v1::World world = registry_.List(kMain, "", 1).worlds.at(0);
    for (const v1::World::Waiting& each : world.waiting()) {
      absl::StrAppend(&text, each.name(), ": ", absl::StrJoin(each.absent(), " "), "; ");
    }
    return text;
  }
  static int CountOf(const std::string& text, const std::string& word) {
    const std::vector<std::string> parts = absl::StrSplit(text, word);
    return static_cast<int>(parts.size()) - 1;
  }
  // Member of a world that Form() made.
  static Caller CallerOf(int process, int64_t epoch) {
    return {.scope = kMain,
            .epoch = epoch,
            .rank = process - 1,
            .nonce = absl::StrCat("nonce ", process)};
  }
  void Pass(absl::Duration time) {
    now_ += time;
    Actions actions;
    registry_.OnTime(now_, actions);
    Carry(std::move(actions));
  }

  void Carry(Actions actions) {
    for (Action& action : actions) {
      if (auto* save = std::get_if<SaveEpoch>(&action)) {
        saved_.push_back(*save);
        if (disk_stops_) continue;
        Actions more;
        registry_.OnSaved(save->scope, absl::OkStatus(), now_, more);
        Carry(std::move(more));
      } else if (auto* formed = std::get_if<SendFormed>(&action)) {
        told_[formed->session] +=
            absl::StrCat("formed ", formed->world->epoch, " as ", formed->rank, " of ",
                         formed->world->members.size(), "; ");
        sizes_[formed->session] = formed->world->size;
      } else if (auto* send = std::get_if<Send>(&action)) {
        told_[send->session] += send->event.ShortDebugString() + "; ";
      } else if (auto* end = std::get_if<coordination::EndSession>(&action)) {
        told_[end->session] += absl::StrCat("end ", GetErrorInfo(end->status).reason);
        ended_[end->session] = end->status;
      } else if (auto* answer = std::get_if<Answer>(&action)) {
        const auto* outcome = std::get_if<SharedOutcome>(&answer->with);
        answers_[answer->call] = outcome != nullptr
                                     ? NameOf((*outcome)->ending)
                                     : GetErrorInfo(std::get<absl::Status>(answer->with)).reason;
      } else if (auto* step = std::get_if<AnswerStep>(&action)) {
        answers_[step->call] = step->agreed.ok() ? absl::StrCat(step->agreed->step, " for ",
                                                                step->agreed->preempt.next_size())
                                                 : GetErrorInfo(step->agreed.status()).reason;
      } else if (std::holds_alternative<ForgetScope>(action)) {
        ++forgotten_;
      }
    }
  }
  void Restart(int64_t last_epoch, std::map<std::string, KnownEpoch> known) {
    registry_ = Registry(last_epoch, known, now_);
    told_.clear();
    answers_.clear();
  }

  absl::Time now_ = kBegin;
  Registry registry_{0, {}, kBegin - absl::Hours(1)};
  bool disk_stops_ = false;
  std::vector<SaveEpoch> saved_;
  std::map<SessionId, std::string> told_;
  std::map<SessionId, int> sizes_;  // of the worlds that they were told of
  std::map<SessionId, absl::Status> ended_;
  std::map<CallId, std::string> answers_;
  int forgotten_ = 0;
};

}  // namespace remesh::server::coordination
