// SPDX-License-Identifier: Apache-2.0
// Every order of events of one scope: the real Registry, a disk, and processes that wait for a world,
// exchange, agree on a step, leave, die and are started again. The server restarts, and what is on
// its way is lost then; time passes. For what members exchange see world_model_test.cc.
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "server/coordination/registry.h"
#include "server/coordination/testing/registry_moment.h"

namespace remesh::server::coordination {
namespace {

constexpr char kScope[] = "jobs/a/worlds/main";
constexpr absl::Duration kPatience = absl::Seconds(300);  // of all calls
constexpr absl::Duration kAWhile = absl::Hours(1);  // nothing but what is forgotten takes as long

struct Rules {
  bool formed_after_disk = true;  // Formed is sent once the epoch is on disk
  bool raises_fence = true;       // the fence rises before Formed is sent
  bool tells_step = true;         // a member that joins again tells the step that it knows
};

struct Size {
  int processes = 0;
  int restarts = 0;
  int timeouts = 0;
  int deaths = 0;
};

struct Found {
  size_t states = 0;
  size_t depth = 0;
  size_t violations = 0;
  size_t stuck = 0;   // states from which no process can finish any more
  std::string first;  // the first violation, and the events that led to it
  int worlds = 0;     // the most that formed in one run
  bool agreed = false;
};

class Model {
 public:
  Model(Size size, Rules rules) : size_(size), rules_(rules) {}

  // Breadth first, from processes that have just been started.
  Found Run() {
    Moment first;
    first.processes.resize(size_.processes);
    Visit(std::move(first), 0);
    while (!queue_.empty()) {
      auto [moment, id, depth] = std::move(queue_.front());
      queue_.pop_front();
      found_.depth = std::max(found_.depth, depth);
      Expand(moment, id, depth);
    }
    found_.states = ids_.size();
    found_.stuck = CountStuck();
    return found_;
  }

 private:
  using Next = ModelProcess::Next;
  struct Visited {
    Moment moment;
    uint32_t id = 0;
    size_t depth = 0;
  };

  void Expand(const Moment& moment, uint32_t id, size_t depth) {
    const bool done = std::any_of(moment.processes.begin(), moment.processes.end(), HasLeft);
    if (done) done_.push_back(id);
    const size_t before = edges_.size();
    const auto visit = [&](Moment next) {
      const std::optional<uint32_t> to = Visit(std::move(next), depth + 1);
      if (to && *to != id) edges_.emplace_back(id, *to);
    };
    for (int place = 0; place < size_.processes; ++place) {
      const ModelProcess& process = moment.processes[place];
      if (HasLeft(process)) continue;
      if (!process.streams) visit(Joined(moment, place));
      if (MayCall(process)) visit(Called(moment, place));
      if (HasNews(process)) visit(Received(moment, place));
    }
    if (moment.save && !moment.saved) visit(Written(moment));
    if (moment.save && moment.saved) visit(SavedArrived(moment));
    const bool nothing_else = edges_.size() == before;
    const bool passes = moment.registry.NextTime() < moment.now + kAWhile;
    if (passes && nothing_else) visit(Passed(moment));
    // Faults, which no one counts on.
    if (passes && !nothing_else && moment.timeouts < size_.timeouts) {
      Moment next = Passed(moment);
      ++next.timeouts;
      Visit(std::move(next), depth + 1);
    }
    for (int place = 0; place < size_.processes; ++place) {
      if (moment.deaths == size_.deaths || HasLeft(moment.processes[place])) continue;
      Visit(Died(moment, place), depth + 1);
    }
    if (moment.restarts < size_.restarts) Visit(Restarted(moment), depth + 1);
  }

  static bool HasLeft(const ModelProcess& process) { return process.next == Next::kNothing; }
  static bool HasNews(const ModelProcess& process) {
    return process.formed || process.answer || process.ended;
  }
  static bool MayCall(const ModelProcess& process) {
    return process.streams && process.epoch != 0 && !process.waits && !HasNews(process);
  }

  SessionId SessionOf(const ModelProcess& process, int place) const {
    return 1 + place + size_.processes * process.generation;
  }
  static Process MemberOf(const ModelProcess& process, int place) {
    return {.nonce = absl::StrCat("nonce ", place, ".", process.generation),
            .host = absl::StrCat("host-", place)};
  }
  static Caller CallerOf(const ModelProcess& process, int place) {
    return {.scope = kScope,
            .epoch = process.epoch,
            .rank = place,
            .nonce = MemberOf(process, place).nonce};
  }

  static Moment After(const Moment& moment, const char* what, int place = -1) {
    Moment next = moment;
    next.last = std::make_shared<const Step>(Step{what, place, moment.last});
    return next;
  }

  // A process joins, or joins again.
  Moment Joined(const Moment& moment, int place) const {
    Moment next = After(moment, "joins", place);
    ModelProcess& process = next.processes[place];
    const SessionId session = SessionOf(process, place);
    process.streams = true;
    Actions actions;
    const absl::Status status = process.epoch == 0 ? Join(next, place, session, actions)
                                                   : JoinAgain(next, place, session, actions);
    if (!status.ok()) actions.push_back(EndSession{session, status});
    Perform(std::move(actions), next);
    return next;
  }

  absl::Status Join(Moment& next, int place, SessionId session, Actions& actions) const {
    Candidate candidate{.process = MemberOf(next.processes[place], place),
                        .min_size = size_.processes,
                        .max_size = size_.processes,
                        .rank = place,
                        .session = session,
                        .deadline = next.now + kPatience};
    return next.registry.Join(kScope, "", std::move(candidate), next.now, actions);
  }

  absl::Status JoinAgain(Moment& next, int place, SessionId session, Actions& actions) const {
    const ModelProcess& process = next.processes[place];
    Returned returned{.process = MemberOf(process, place),
                      .epoch = process.epoch,
                      .rank = place,
                      .size = size_.processes,
                      .finished = process.finished,
                      .agreed_step = rules_.tells_step ? process.agreed : std::nullopt};
    return next.registry.JoinAgain(kScope, session, std::move(returned), next.now, actions);
  }

  // A member makes its next call.
  Moment Called(const Moment& moment, int place) const {
    Moment next = After(moment, "calls", place);
    ModelProcess& process = next.processes[place];
    const Caller caller = CallerOf(process, place);
    const CallId call = SessionOf(process, place);
    const absl::Time deadline = next.now + kPatience;
    process.waits = true;
    Actions actions;
    if (process.next == Next::kBarrier) {
      next.registry.Exchange(call, caller, 0, {.name = "save"}, deadline, next.now, actions);
    } else if (process.next == Next::kStep) {
      next.registry.AgreeStep(call, caller, OwnStep(place), deadline, next.now, actions);
    } else {
      const absl::Status status = next.registry.Leave(caller, next.now, actions);
      process.answer = status.ok() ? "OK" : ReasonOf(status);
    }
    Perform(std::move(actions), next);
    return next;
  }

  static int64_t OwnStep(int place) { return 10 + place; }

  static std::string ReasonOf(const absl::Status& status) {
    const std::string reason = GetErrorInfo(status).reason;
    return reason.empty() ? absl::StatusCodeToString(status.code()) : reason;
  }

  // What is on its way to a process arrives, in order.
  Moment Received(const Moment& moment, int place) const {
    Moment next = After(moment, "receives", place);
    ModelProcess& process = next.processes[place];
    if (const auto formed = std::exchange(process.formed, std::nullopt)) process.epoch = *formed;
    if (const auto outcome = std::exchange(process.outcome, std::nullopt)) {
      process.finished = {*outcome};
    }
    if (const auto answer = std::exchange(process.answer, std::nullopt)) {
      OnAnswer(next, process, *answer);
    }
    if (const auto ended = std::exchange(process.ended, std::nullopt)) OnEnded(process, *ended);
    return next;
  }

  // A step that was agreed on comes as its number.
  static void OnAnswer(Moment& next, ModelProcess& process, const std::string& answer) {
    process.waits = false;
    const bool again = answer == "JOIN_AGAIN" || answer == "CALLED_AGAIN";
    if (again || process.epoch == 0) return;
    if (EndsWorld(answer)) return BeNew(process);
    if (answer.starts_with("step ")) process.agreed = std::stoll(answer.substr(5));
    if (process.next == Next::kStep) CheckStep(next, process.epoch, process.agreed);
    process.next = static_cast<Next>(static_cast<int>(process.next) + 1);
  }

  static bool EndsWorld(const std::string& reason) {
    return reason == "MEMBER_LOST" || reason == "STALE_EPOCH" || reason == "RESULTS_DIFFER";
  }

  static void OnEnded(ModelProcess& process, const std::string& why) {
    process.streams = false;
    if (HasLeft(process)) return;
    const bool over = why == "OK" || EndsWorld(why);
    if (process.epoch != 0 && over) BeNew(process);
  }

  // The process waits for the next world.
  static void BeNew(ModelProcess& process) {
    process = ModelProcess{.generation = process.generation + 1};
  }

  Moment Written(const Moment& moment) const {
    Moment next = After(moment, "the disk writes");
    next.saved = true;
    next.disk.last_epoch = std::max(next.disk.last_epoch, next.save->epoch);
    next.disk.worlds[kScope] = {
        .epoch = next.save->epoch, .size = next.save->size, .formed = next.now};
    return next;
  }

  Moment SavedArrived(const Moment& moment) const {
    Moment next = After(moment, "the server learns of it");
    next.save.reset();
    next.saved = false;
    if (!rules_.formed_after_disk) return next;
    Actions actions;
    next.registry.OnSaved(kScope, absl::OkStatus(), next.now, actions);
    Perform(std::move(actions), next);
    return next;
  }

  Moment Passed(const Moment& moment) const {
    Moment next = After(moment, "time passes");
    next.now = std::max(next.now, moment.registry.NextTime());
    Actions actions;
    next.registry.OnTime(next.now, actions);
    Perform(std::move(actions), next);
    return next;
  }

  // A process dies, and another is started in its place.
  Moment Died(const Moment& moment, int place) const {
    Moment next = After(moment, "dies", place);
    ++next.deaths;
    ModelProcess& process = next.processes[place];
    const SessionId session = SessionOf(process, place);
    const bool streamed = process.streams;
    next.registry.OnCallGone(kScope, session);
    BeNew(process);
    if (!streamed) return next;
    Actions actions;
    next.registry.OnSessionEnd(session, next.now, actions);
    Perform(std::move(actions), next);
    return next;
  }

  // What is on its way from and to the server is lost.
  static Moment Restarted(const Moment& moment) {
    Moment next = After(moment, "the server restarts");
    ++next.restarts;
    next.save.reset();
    next.saved = false;
    next.registry = Registry(next.disk.last_epoch, next.disk.worlds, next.now);
    next.fence = next.disk.worlds.contains(kScope) ? next.disk.worlds.at(kScope).epoch : 0;
    for (ModelProcess& process : next.processes) {
      process.streams = process.waits = false;
      process.formed.reset();
      process.answer.reset();
      process.outcome.reset();
      process.ended.reset();
    }
    return next;
  }

  void Perform(Actions actions, Moment& next) const {
    for (Action& action : actions) {
      std::visit([&](auto& what) { Do(what, next); }, action);
    }
  }

  ModelProcess* ProcessOf(Moment& next, SessionId session) const {
    for (int place = 0; place < size_.processes; ++place) {
      if (SessionOf(next.processes[place], place) == session) return &next.processes[place];
    }
    return nullptr;
  }

  void Do(const Answer& answer, Moment& next) const {
    ModelProcess* const process = ProcessOf(next, answer.call);
    if (process == nullptr) return;
    if (const auto* refused = std::get_if<absl::Status>(&answer.with)) {
      process->answer = ReasonOf(*refused);
      return;
    }
    const Outcome& outcome = *std::get<SharedOutcome>(answer.with);
    process->answer = NameOf(outcome.ending);
    process->outcome = Finished{.outcome = outcome, .digest = answer.digest};
    process->outcome->contribution.name = "save";
  }

  void Do(const AnswerStep& answer, Moment& next) const {
    ModelProcess* const process = ProcessOf(next, answer.call);
    if (process == nullptr) return;
    process->answer = answer.agreed.ok() ? absl::StrCat("step ", answer.agreed->step)
                                         : ReasonOf(answer.agreed.status());
  }

  void Do(const EndSession& end, Moment& next) const {
    ModelProcess* const process = ProcessOf(next, end.session);
    if (process != nullptr) process->ended = end.status.ok() ? "OK" : ReasonOf(end.status);
    Actions more;
    next.registry.OnSessionEnd(end.session, next.now, more);
    Perform(std::move(more), next);
  }

  void Do(const SendFormed& formed, Moment& next) const {
    const int64_t epoch = formed.world->epoch;
    const auto known = next.disk.worlds.find(kScope);
    if (known == next.disk.worlds.end() || known->second.epoch < epoch) {
      next.violation = absl::StrCat("epoch ", epoch, " was sent before it was on disk");
    }
    if (next.fence < epoch) next.violation = absl::StrCat("epoch ", epoch, " does not fence");
    next.highest_formed = std::max(next.highest_formed, epoch);
    if (ModelProcess* const process = ProcessOf(next, formed.session)) process->formed = epoch;
  }

  void Do(const Send&, Moment&) const {}

  void Do(const SaveEpoch& save, Moment& next) const {
    next.save = save;
    if (rules_.formed_after_disk) return;
    Actions actions;
    next.registry.OnSaved(kScope, absl::OkStatus(), next.now, actions);
    Perform(std::move(actions), next);
  }

  void Do(const ForgetScope&, Moment& next) const { next.violation = "a scope is forgotten"; }

  // No member of an earlier world is there any more.
  void Do(const RaiseEpoch& raised, Moment& next) const {
    if (raised.epoch <= next.highest_formed) next.violation = "an epoch does not rise";
    if (rules_.raises_fence) next.fence = raised.epoch;
    for (const ModelProcess& process : next.processes) {
      const bool lives = process.streams && process.epoch != 0 && !process.ended;
      if (lives) next.violation = "a living member is displaced";
    }
  }

  void Do(const RoundEnded&, Moment&) const {}

  // `step`: none if the call failed.
  static void CheckStep(Moment& next, int64_t epoch, std::optional<int64_t> step) {
    const auto [at, first] = next.steps.emplace(epoch, step.value_or(-1));
    if (at->second != step.value_or(-1)) next.violation = "members agree on different steps";
    if (step && *step <= OwnStep(static_cast<int>(next.processes.size()) - 1)) {
      next.violation = "a member is beyond the step that it agreed on";
    }
  }

  // The state's number; none if it breaks a law, which ends the run.
  std::optional<uint32_t> Visit(Moment moment, size_t depth) {
    const std::string text = TextOf(moment);
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    const auto [at, added] =
        ids_.try_emplace({hash.high64, hash.low64}, static_cast<uint32_t>(ids_.size()));
    if (!moment.violation.empty()) {
      if (!added) return std::nullopt;
      ++found_.violations;
      if (found_.first.empty()) found_.first = moment.violation + TrailOf(moment);
      return std::nullopt;
    }
    if (!added) return at->second;
    found_.worlds = std::max(found_.worlds, static_cast<int>(moment.highest_formed));
    found_.agreed |= !moment.steps.empty();
    queue_.push_back({std::move(moment), at->second, depth});
    return at->second;
  }

  // States from which, without another fault, no process leaves.
  size_t CountStuck() const {
    std::vector<std::vector<uint32_t>> before(ids_.size());
    for (const auto& [from, to] : edges_) before[to].push_back(from);
    std::vector<bool> ends(ids_.size());
    std::vector<uint32_t> open = done_;
    for (const uint32_t id : open) ends[id] = true;
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      for (const uint32_t from : before[id]) {
        if (ends[from]) continue;
        ends[from] = true;
        open.push_back(from);
      }
    }
    return ids_.size() - std::count(ends.begin(), ends.end(), true) - found_.violations;
  }

  const Size size_;
  const Rules rules_;
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, uint32_t> ids_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;  // but for faults
  std::vector<uint32_t> done_;
  std::deque<Visited> queue_;
  Found found_;
};

Found Explore(const Size& size, const Rules& rules = {}) {
  const Found found = Model(size, rules).Run();
  std::printf(
      "%d processes, %d restarts, %d time-outs, %d deaths: %zu states, depth %zu, %zu violations, "
      "%zu stuck, at most %d worlds\n",
      size.processes, size.restarts, size.timeouts, size.deaths, found.states, found.depth,
      found.violations, found.stuck, found.worlds);
  if (!found.first.empty()) std::printf("the first: %s\n", found.first.c_str());
  return found;
}

constexpr Size kSmall = {.processes = 2, .restarts = 1, .timeouts = 1, .deaths = 1};

void CheckExplored(const Found& found) {
  EXPECT_EQ(found.violations, 0u);
  EXPECT_EQ(found.stuck, 0u);
  EXPECT_GE(found.worlds, 2) << "nothing was passed over";
  EXPECT_TRUE(found.agreed);
}

TEST(RegistryModelTest, TwoProcessesKeepTheLawsInEveryOrderOfEvents) {
  CheckExplored(Explore({.processes = 2, .restarts = 2, .timeouts = 2, .deaths = 1}));
}

TEST(RegistryModelTest, ThreeProcessesKeepTheLawsInEveryOrderOfEvents) {
  CheckExplored(Explore({.processes = 3, .restarts = 1, .timeouts = 1, .deaths = 1}));
}

TEST(RegistryModelTest, FindsFormedThatIsSentBeforeTheEpochIsOnDisk) {
  EXPECT_GT(Explore(kSmall, {.formed_after_disk = false}).violations, 0u);
}

TEST(RegistryModelTest, FindsAFenceThatDoesNotRise) {
  EXPECT_GT(Explore(kSmall, {.raises_fence = false}).violations, 0u);
}

TEST(RegistryModelTest, FindsMembersThatDoNotTellTheStepThatTheyKnow) {
  EXPECT_GT(Explore(kSmall, {.tells_step = false}).violations, 0u);
}

}  // namespace
}  // namespace remesh::server::coordination
