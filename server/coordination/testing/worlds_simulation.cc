// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/testing/worlds_simulation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remesh::server::coordination {
namespace {

constexpr absl::Duration kChaos = absl::Seconds(60);
constexpr absl::Duration kQuiet = absl::Seconds(100);

}  // namespace

uint64_t Mixed(uint64_t a, uint64_t b) {
  uint64_t mixed = (a + 0x9e3779b97f4a7c15) ^ (b * 0xbf58476d1ce4e5b9);
  mixed = (mixed ^ (mixed >> 30)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

WorldsSimulation::WorldsSimulation(uint64_t seed, BrokenRules broken)
    : seed_(seed),
      broken_(broken),
      schedule_(seed),
      history_(seed, schedule_),
      server_(broken, schedule_, history_,
              {.send = [this](Process& process, const Action& action) { Send(process, action); },
               .delay = [this] { return Delay(); },
               .quiet = [this] { return quiet_; }}) {
  const int jobs = 1 + static_cast<int>(schedule_.Below(3));
  for (int i = 0; i < jobs; ++i) {
    auto job = std::make_unique<Job>();
    job->scope = absl::StrCat("jobs/", i / 2, "/worlds/", i);
    job->size = 1 + static_cast<int>(schedule_.Below(5));
    job->min_size =
        schedule_.Chance(0.3) ? 1 + static_cast<int>(schedule_.Below(job->size)) : job->size;
    job->asks_ranks = schedule_.Chance(0.7);
    job->restarts_all = schedule_.Chance(0.4);
    job->at.resize(job->size);
    jobs_.push_back(std::move(job));
  }
}

void WorldsSimulation::Run() {
  server_.Start();
  for (auto& job : jobs_) {
    for (int place = 0; place < job->size; ++place) StartProcess(*job, place);
  }
  Chaos();
  Advance(schedule_.now() + kChaos);
  quiet_ = true;
  if (!server_.runs()) server_.Start();
  for (auto& process : processes_) {
    if (process->stopped) process->Continue();
  }
  Advance(schedule_.now() + kQuiet);
  CheckEnd();
  history_.CheckRounds();
}

void WorldsSimulation::Advance(absl::Time until) {
  while (violations().empty()) {
    const absl::Time tick = server_.NextTick();
    const absl::Time event = schedule_.NextTime();
    if (std::min(tick, event) > until) break;
    if (event <= tick) {
      schedule_.RunNext();
      continue;
    }
    schedule_.GoTo(tick);
    server_.OnTick();
  }
  schedule_.GoTo(until);
}

void WorldsSimulation::CheckEnd() {
  if (!violations().empty()) return;
  const absl::Time now = schedule_.now();
  for (const auto& job : jobs_) {
    if (job->last_ok >= now - absl::Seconds(50)) continue;
    history_.Violate(absl::StrCat(job->scope, " is stuck: no round has ended well for ",
                                  absl::FormatDuration(now - job->last_ok), ShownWorlds()));
  }
  for (const auto& process : processes_) {
    const bool waits = process->alive && process->waits != Process::Waits::kNothing;
    if (waits && now - process->since > absl::Seconds(50)) history_.Violate("a call is stuck");
  }
  CheckNothingStays();
}

// Nothing is kept of what is over.
void WorldsSimulation::CheckNothingStays() {
  for (const auto& job : jobs_) job->size = 0;  // no more processes are started
  for (const auto& process : processes_) Die(*process);
  Advance(schedule_.now() + absl::Seconds(60) + kAskAgainTime);
  if (server_.registry().sessions() > 0) history_.Violate("sessions stay");
  if (server_.registry().held() > 0) history_.Violate("payloads stay");
  Advance(schedule_.now() + kForgetAfter);
  if (!server_.registry().List("", "", 100).worlds.empty()) history_.Violate("worlds stay");
  if (!server_.DiskIsEmpty()) history_.Violate("worlds stay on the disk");
}

std::string WorldsSimulation::ShownWorlds() {
  std::string shown;
  for (const v1::World& world : server_.registry().List("", "", 100).worlds) {
    absl::StrAppend(&shown, "; ", world.ShortDebugString());
  }
  return shown;
}

}  // namespace remesh::server::coordination
