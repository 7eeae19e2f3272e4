// SPDX-License-Identifier: Apache-2.0
// Every order of events of a small world, against the laws of README.md: the real World, and
// members that keep and tell what it asks of them. Members join, call, get their answers or lose
// them, die; the server restarts; time passes.
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "gtest/gtest.h"
#include "server/coordination/testing/world_text.h"
#include "server/coordination/world.h"

namespace remesh::server::coordination {

namespace {

constexpr absl::Duration kDeadline = absl::Seconds(300);

// What a member tells when it joins again.
enum class Tells { kSinceLastOk, kLastOnly, kNothing };

struct Rules {
  Tells tells = Tells::kSinceLastOk;
  bool waits_for_all = true;
  bool tells_digests = true;
  bool keeps_payload = true;  // a member contributes the same again
  bool equal_values = true;   // in the round that is an agreement
};

struct Size {
  int members = 0;
  uint64_t rounds = 0;
  int restarts = 0;
  int timeouts = 0;
  int deaths = 0;
};

// A process, and what is on its way to it.
struct Process {
  bool alive = true;
  bool joined = true;
  bool calls = false;    // waits for the answer to its call
  SharedOutcome answer;  // on its way
  std::vector<SharedOutcome> outcomes;
  std::vector<std::shared_ptr<const Finished>> finished;
  int lives_seen = 0;  // of the server, when it made its payload
};

// What happened, after what happened before.
struct Step {
  const char* what = "";
  int rank = -1;  // to whom; -1: to all
  std::shared_ptr<const Step> before;
};

struct Moment {
  World world;
  std::vector<Process> processes;
  absl::Time now = absl::UnixEpoch();
  int restarts = 0;
  int timeouts = 0;
  int deaths = 0;
  std::shared_ptr<const Step> last;
};

std::string TrailOf(const Moment& moment) {
  std::vector<std::string> lines;
  for (const Step* step = moment.last.get(); step != nullptr; step = step->before.get()) {
    lines.push_back(step->rank < 0 ? step->what : absl::StrCat(step->rank, " ", step->what));
  }
  std::reverse(lines.begin(), lines.end());
  return absl::StrCat("\n  ", absl::StrJoin(lines, "\n  "));
}

bool Same(const SharedOutcome& a, const SharedOutcome& b) { return a == b || *a == *b; }

// How many of the first rounds are settled: all living members have the same outcome of them, and
// have gone on, so that no later event can break the law in them.
size_t SettledRounds(const std::vector<Process>& processes) {
  const Process* first = nullptr;
  size_t settled = SIZE_MAX;
  for (const Process& process : processes) {
    if (!process.alive) continue;
    if (first == nullptr) first = &process;
    settled = std::min(settled, process.outcomes.size());
    for (size_t round = 0; round < settled; ++round) {
      if (!Same(process.outcomes[round], first->outcomes[round])) settled = round;
    }
  }
  return settled;
}

// All that decides what the process does next, and whether the law holds.
void AppendTo(std::string& text, const Process& process, size_t settled_rounds) {
  text += process.alive ? "#" : "#dead";
  if (!process.alive) return;
  absl::StrAppend(&text, process.joined, process.calls, process.lives_seen, ";",
                  process.outcomes.size(), ";");
  if (process.answer) AppendTo(text, *process.answer);
  for (const auto& each : process.finished) {
    absl::StrAppend(&text, ";", std::string(each->contribution.payload));
    AppendTo(text, each->outcome);
  }
  if (!process.outcomes.empty()) AppendTo(text.append("/"), *process.outcomes.back());
  for (size_t round = settled_rounds; round < process.outcomes.size(); ++round) {
    AppendTo(text.append("/"), *process.outcomes[round]);
  }
}

std::string TextOf(const Moment& moment) {
  std::string text;
  text.reserve(1024);
  AppendTo(text, moment.world, moment.now);
  const size_t settled = SettledRounds(moment.processes);
  for (const Process& process : moment.processes) AppendTo(text, process, settled);
  absl::StrAppend(&text, "#", moment.restarts, ",", moment.timeouts, ",", moment.deaths);
  return text;
}

// Wide enough to stand for the text.
std::pair<uint64_t, uint64_t> HashOf(const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

bool IsEndOfWorld(const Outcome& outcome) {
  return outcome.ending == Ending::kMemberLost || outcome.ending == Ending::kResultsDiffer;
}

// Dead, or told that the world is over.
bool IsGone(const Process& process) {
  if (!process.alive) return true;
  return !process.outcomes.empty() && IsEndOfWorld(*process.outcomes.back());
}

struct Found {
  size_t states = 0;
  size_t depth = 0;
  size_t disagreements = 0;
  size_t stuck = 0;
  std::string first;  // the events that led to the first of these
  std::set<std::string> endings;
};

class Model {
 public:
  Model(Size size, Rules rules) : size_(size), rules_(rules) {}

  // Breadth first, from a world that has just formed.
  Found Run() {
    Visit(First(), 0);
    while (!queue_.empty()) {
      const auto [moment, depth] = std::move(queue_.front());
      queue_.pop_front();
      found_.depth = std::max(found_.depth, depth);
      Expand(moment, depth);
    }
    found_.states = seen_.size();
    return found_;
  }

 private:
  Moment First() const {
    std::vector<Member> members;
    std::vector<SessionId> sessions;
    for (int rank = 0; rank < size_.members; ++rank) {
      members.push_back(MemberOf(rank));
      sessions.push_back(rank);
    }
    return {.world = World(members, sessions), .processes = std::vector<Process>(size_.members)};
  }

  static Member MemberOf(int rank) {
    return {.nonce = absl::StrCat("nonce ", rank), .host = absl::StrCat("host-", rank)};
  }

  // A gather, an agreement, a broadcast, and so on.
  Contribution ContributionOf(int rank, uint64_t sequence, int lives_seen) const {
    Contribution contribution;
    contribution.name = absl::StrCat("round ", sequence);
    contribution.payload = absl::Cord(absl::StrCat(rank, " in ", sequence));
    if (!rules_.keeps_payload) contribution.payload.Append(absl::StrCat(" of ", lives_seen));
    switch (sequence % 3) {
      case 0:
        contribution.mode = Mode::kGather;
        contribution.root = -1;
        break;
      case 1:
        contribution.mode = Mode::kAgree;
        contribution.payload = absl::Cord(std::string(kDigestBytes, 's') + ValueOf(rank));
        break;
      default:
        contribution.mode = Mode::kBroadcast;
    }
    return contribution;
  }

  // A digest.
  std::string ValueOf(int rank) const {
    return std::string(kDigestBytes, rules_.equal_values ? 'v' : static_cast<char>('a' + rank));
  }

  void Expand(const Moment& moment, size_t depth) {
    if (AllDone(moment)) return;  // no outcome follows
    bool progress = false;
    for (int rank = 0; rank < size_.members; ++rank) {
      if (!moment.processes[rank].alive) continue;
      progress |= TryJoin(moment, rank, depth);
      progress |= TryCall(moment, rank, depth);
      progress |= TryReceive(moment, rank, depth);
      TryDie(moment, rank, depth);
    }
    progress |= TryTime(moment, depth);
    TryRestart(moment, depth);
    if (progress) return;
    ++found_.stuck;
    if (found_.first.empty()) found_.first = "stuck:" + TrailOf(moment);
  }

  static Moment After(const Moment& moment, const char* what, int rank = -1) {
    Moment next = moment;
    next.last = std::make_shared<const Step>(Step{what, rank, moment.last});
    return next;
  }

  bool TryJoin(const Moment& moment, int rank, size_t depth) {
    if (moment.processes[rank].joined || IsGone(moment.processes[rank])) return false;
    Moment next = After(moment, "joins", rank);
    Process& process = next.processes[rank];
    Actions actions;
    const absl::Status status =
        next.world.JoinAgain(rank, MemberOf(rank), rank, ReportOf(process), actions);
    if (!status.ok()) {
      // The world is over, and the member learns it so.
      process.outcomes.push_back(std::make_shared<const Outcome>(
          next.world.over() ? *next.world.over() : Failure(Ending::kMemberLost, "refused")));
      Visit(std::move(next), depth + 1);
      return true;
    }
    process.joined = true;
    if (!rules_.waits_for_all) EndReturnEarly(next.world);
    Carry(actions, next);
    Visit(std::move(next), depth + 1);
    return true;
  }

  bool TryCall(const Moment& moment, int rank, size_t depth) {
    const Process& before = moment.processes[rank];
    if (!before.joined || before.calls || before.answer || Done(before)) return false;
    Moment next = After(moment, "calls", rank);
    Process& process = next.processes[rank];
    process.calls = true;
    if (!rules_.keeps_payload) process.lives_seen = moment.restarts;
    Actions actions;
    const uint64_t sequence = process.outcomes.size();
    next.world.Exchange(rank, rank, MemberOf(rank).nonce, sequence,
                        ContributionOf(rank, sequence, process.lives_seen), next.now + kDeadline,
                        next.now, actions);
    Carry(actions, next);
    Visit(std::move(next), depth + 1);
    return true;
  }

  bool TryReceive(const Moment& moment, int rank, size_t depth) {
    if (!moment.processes[rank].answer) return false;
    Moment next = After(moment, "receives", rank);
    Process& process = next.processes[rank];
    const SharedOutcome outcome = std::exchange(process.answer, nullptr);
    if (outcome->ending == Ending::kOk) process.finished.clear();
    const uint64_t sequence = process.outcomes.size();
    Outcome told = *outcome;
    told.payloads.clear();
    process.finished.push_back(std::make_shared<const Finished>(
        Finished{sequence, std::move(told), DigestOf(*outcome),
                 ContributionOf(rank, sequence, process.lives_seen)}));
    process.outcomes.push_back(outcome);
    found_.endings.insert(NameOf(outcome->ending));
    Visit(std::move(next), depth + 1);
    return true;
  }

  void TryDie(const Moment& moment, int rank, size_t depth) {
    if (moment.deaths == size_.deaths) return;
    Moment next = After(moment, "dies", rank);
    ++next.deaths;
    Process& process = next.processes[rank];
    process.alive = false;
    process.answer.reset();
    next.world.OnCallGone(rank);
    if (process.joined) next.world.OnSessionEnd(rank, next.now);
    Visit(std::move(next), depth + 1);
  }

  // To the next time at which the world does something. What a living process would be late for is
  // a time-out; that one which does not come any more is missed is progress.
  bool TryTime(const Moment& moment, size_t depth) {
    const absl::Time time = moment.world.NextTime();
    if (time == absl::InfiniteFuture()) return false;
    const bool missed = std::any_of(moment.processes.begin(), moment.processes.end(), IsGone);
    if (!missed && moment.timeouts == size_.timeouts) return false;
    Moment next = After(moment, "time passes");
    if (!missed) ++next.timeouts;
    next.now = std::max(next.now, time);
    Actions actions;
    next.world.OnTime(next.now, actions);
    Carry(actions, next);
    Visit(std::move(next), depth + 1);
    return missed;
  }

  void TryRestart(const Moment& moment, size_t depth) {
    if (moment.restarts == size_.restarts) return;
    Moment next = After(moment, "server restarts");
    ++next.restarts;
    next.world = World::Returning(size_.members, next.now);
    for (Process& process : next.processes) {
      process.joined = process.calls = false;
      process.answer.reset();
    }
    Visit(std::move(next), depth + 1);
  }

  std::vector<Finished> ReportOf(const Process& process) const {
    std::vector<Finished> report;
    for (const auto& each : process.finished) report.push_back(*each);
    if (rules_.tells == Tells::kNothing) report.clear();
    if (rules_.tells == Tells::kLastOnly && report.size() > 1) report = {report.back()};
    for (Finished& each : report) {
      if (!rules_.tells_digests) each.digest.clear();
      if (rules_.keeps_payload || each.outcome.ending != Ending::kOk) continue;
      each.contribution.payload.Append(" again");
    }
    return report;
  }

  // Answers go on their way. A refusal is one that the member did not deserve: it stays without.
  static void Carry(const Actions& actions, Moment& moment) {
    for (const Action& action : actions) {
      const auto* answer = std::get_if<Answer>(&action);
      if (answer == nullptr) continue;
      const auto* outcome = std::get_if<SharedOutcome>(&answer->with);
      if (outcome == nullptr) continue;
      Process& process = moment.processes[answer->call];
      REMESH_CHECK(process.alive && process.calls);
      process.calls = false;
      process.answer = *outcome;
    }
  }

  bool Done(const Process& process) const {
    return process.outcomes.size() >= size_.rounds || IsGone(process);
  }

  bool AllDone(const Moment& moment) const {
    return std::all_of(moment.processes.begin(), moment.processes.end(),
                       [this](const Process& process) { return !process.alive || Done(process); });
  }

  void Visit(Moment moment, size_t depth) {
    if (!seen_.insert(HashOf(TextOf(moment))).second) return;
    if (Disagree(moment)) {
      ++found_.disagreements;
      if (found_.first.empty()) found_.first = "disagreement:" + TrailOf(moment);
      return;
    }
    queue_.emplace_back(std::move(moment), depth);
  }

  // Whether two living members' outcomes of a round break the law.
  bool Disagree(const Moment& moment) const {
    for (uint64_t sequence = 0; sequence < size_.rounds; ++sequence) {
      const Outcome* first = nullptr;
      for (const Process& process : moment.processes) {
        if (!process.alive || process.outcomes.size() <= sequence) continue;
        const Outcome& outcome = *process.outcomes[sequence];
        if (first == nullptr) first = &outcome;
        if (&outcome == first || outcome == *first) continue;
        if (!IsEndOfWorld(outcome) && !IsEndOfWorld(*first)) return true;
        if (AnyOkAfter(moment, sequence)) return true;
      }
    }
    return false;
  }

  static bool AnyOkAfter(const Moment& moment, uint64_t sequence) {
    for (const Process& process : moment.processes) {
      for (size_t later = sequence + 1; later < process.outcomes.size(); ++later) {
        if (process.alive && process.outcomes[later]->ending == Ending::kOk) return true;
      }
    }
    return false;
  }

  const Size size_;
  const Rules rules_;
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> seen_;
  std::deque<std::pair<Moment, size_t>> queue_;
  Found found_;
};

Found Explore(const Size& size, const Rules& rules = {}) {
  const Found found = Model(size, rules).Run();
  std::printf(
      "%d members, %d rounds, %d restarts, %d time-outs, %d deaths: %zu states, depth %zu, "
      "%zu disagreements, %zu stuck\n",
      size.members, static_cast<int>(size.rounds), size.restarts, size.timeouts, size.deaths,
      found.states, found.depth, found.disagreements, found.stuck);
  if (!found.first.empty()) std::printf("the first %s\n", found.first.c_str());
  return found;
}

constexpr Size kSmall = {.members = 2, .rounds = 3, .restarts = 2, .timeouts = 1, .deaths = 0};

TEST(WorldModelTest, TwoMembersAgreeInEveryOrderOfEvents) {
  const Found found =
      Explore({.members = 2, .rounds = 3, .restarts = 2, .timeouts = 2, .deaths = 1});
  EXPECT_EQ(found.disagreements, 0u);
  EXPECT_EQ(found.stuck, 0u);
  // Nothing was passed over: rounds ended well, late, and with the world.
  EXPECT_EQ(found.endings, (std::set<std::string>{"OK", "BARRIER_TIMEOUT", "MEMBER_LOST"}));
}

TEST(WorldModelTest, ThreeMembersAgreeInEveryOrderOfEvents) {
  const Found found =
      Explore({.members = 3, .rounds = 3, .restarts = 2, .timeouts = 2, .deaths = 1});
  EXPECT_EQ(found.disagreements, 0u);
  EXPECT_EQ(found.stuck, 0u);
}

TEST(WorldModelTest, MembersLearnInEveryOrderOfEventsThatTheirValuesDiffer) {
  const Found found =
      Explore({.members = 2, .rounds = 3, .restarts = 2, .timeouts = 2, .deaths = 1},
              {.equal_values = false});
  EXPECT_EQ(found.disagreements, 0u);
  EXPECT_EQ(found.stuck, 0u);
  EXPECT_TRUE(found.endings.contains("VALUES_DIFFER"));
}

TEST(WorldModelTest, FindsWhatGoesWrongWhenMembersTellNothing) {
  const Found found = Explore(kSmall, {.tells = Tells::kNothing});
  EXPECT_GT(found.disagreements + found.stuck, 0u);
}

TEST(WorldModelTest, FindsWhatGoesWrongWhenMembersTellOnlyTheirLastRound) {
  const Found found =
      Explore({.members = 2, .rounds = 3, .restarts = 2, .timeouts = 2, .deaths = 0},
              {.tells = Tells::kLastOnly});
  EXPECT_GT(found.disagreements + found.stuck, 0u);
}

TEST(WorldModelTest, FindsWhatGoesWrongWhenTheServerDoesNotWaitForAll) {
  const Found found = Explore(kSmall, {.waits_for_all = false});
  EXPECT_GT(found.disagreements + found.stuck, 0u);
}

TEST(WorldModelTest, DigestsStopMembersThatComeBackWithOtherPayloads) {
  const Found found = Explore(kSmall, {.keeps_payload = false});
  EXPECT_EQ(found.disagreements, 0u);
  EXPECT_TRUE(found.endings.contains("RESULTS_DIFFER"));
}

TEST(WorldModelTest, FindsWhatGoesWrongWithoutDigests) {
  const Found found = Explore(kSmall, {.tells_digests = false, .keeps_payload = false});
  EXPECT_GT(found.disagreements, 0u);
}

}  // namespace
}  // namespace remesh::server::coordination
