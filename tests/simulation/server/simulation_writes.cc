// SPDX-License-Identifier: Apache-2.0
// Trainers that write states again, and the law of that: what READY and DEGRADED stand for is of
// one write, and so is what a move reads.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/simulation/server/simulation.h"

namespace remesh::server {
namespace {

constexpr int64_t kSecond = 1'000'000;

std::string NameOf(uint64_t state) { return absl::StrCat("jobs/sim/states/s", state); }

// Whether the boxes cover [0, extent).
bool Cover(const std::vector<ModelWorker::Shard>& boxes, int64_t extent) {
  for (int64_t element = 0; element < extent; ++element) {
    const bool held = std::any_of(boxes.begin(), boxes.end(), [&](const auto& box) {
      return box.lo <= element && element < box.hi;
    });
    if (!held) return false;
  }
  return true;
}

}  // namespace

// A job writes a state on its hosts, each at its own time. Some trainers die before they begin, or
// before they are done. Now and then a host says that it has the write already.
void Simulation::Rewrite() {
  const std::string state = NameOf(random_() % static_cast<uint64_t>(options_.states));
  const std::string write = absl::StrCat(++writes_);
  for (int i = 0; i < options_.workers; ++i) {
    if (Chance(0.15)) continue;
    const int64_t begins = Soon(kSecond);
    const auto when_alive = [this, i](int64_t time, auto what) {
      At(time, [this, i, what] {
        if (workers_[i].alive) what(*workers_[i].model);
      });
    };
    const bool joins = Chance(0.05), ends = Chance(0.9);
    if (!joins) when_alive(begins, [=](ModelWorker& model) { model.Unseal(state, write); });
    if (!ends) continue;
    when_alive(begins + Soon(kSecond) - now_,
               [=](ModelWorker& model) { model.Seal(state, write); });
  }
}

// Whether hosts of the generation have something unsealed, or different writes.
bool Simulation::NeedsWrite(const std::string& state, const std::string& state_uid,
                            int64_t generation) const {
  std::set<std::string> writes;
  for (const Worker& worker : workers_) {
    const auto* newest = worker.model->Newest(state);
    if (newest == nullptr || newest->first.second != generation) continue;
    if (newest->second.state_uid != state_uid) continue;
    if (newest->second.phase == v1::SHARD_PHASE_BUILDING) return true;
    writes.insert(newest->second.write);
  }
  return writes.size() > 1;
}

// What trainers left half-done is written again, on all hosts at once.
void Simulation::FinishWrites() {
  for (int s = 0; s < options_.states; ++s) {
    const std::string state = NameOf(s);
    const std::string write = absl::StrCat(++writes_);
    std::set<std::pair<std::string, int64_t>> unfinished;
    for (const Worker& worker : workers_) {
      const auto* newest = worker.model->Newest(state);
      if (newest == nullptr) continue;
      const std::string& uid = newest->second.state_uid;
      const int64_t generation = newest->first.second;
      if (NeedsWrite(state, uid, generation)) unfinished.insert({uid, generation});
    }
    for (const Worker& worker : workers_) {
      const auto* newest = worker.model->Newest(state);
      if (!worker.alive || newest == nullptr) continue;
      if (!unfinished.contains({newest->second.state_uid, newest->first.second})) continue;
      worker.model->Unseal(state, write);
      worker.model->Seal(state, write);
    }
  }
}

Simulation::Report Simulation::ReportBy(int worker, const v1::AttachRequest& message) const {
  const auto& held = workers_[worker].model->held();
  if (message.has_register_()) return {.all = true, .held = held};
  Report report;
  const v1::StateManifest& manifest = message.has_committed()
                                          ? message.committed().manifest()
                                          : message.manifest_changed().manifest();
  const auto found = held.find({manifest.state(), manifest.generation()});
  if (found != held.end()) report.held.insert(*found);
  return report;
}

// What a stream reports before it is welcomed, the server takes then.
void Simulation::OnHeld(StreamId id, Report report) {
  Stream& stream = streams_.at(id);
  if (!report.all && report.held.empty()) return;
  if (!stream.welcomed) return stream.reports.push_back(std::move(report));
  TakeHeld(stream.worker, report);
}

void Simulation::TakeHeld(int worker, const Report& report) {
  auto& reported = reported_[worker];
  if (report.all) reported.clear();
  for (const auto& [key, held] : report.held) reported[key] = held;
}

Simulation::Contents Simulation::ContentsOf(const v1::State& state) const {
  Contents contents;
  const auto& lost = state.lost_hosts();
  for (const v1::Host& host : state.spec().topology().hosts()) {
    if (std::find(lost.begin(), lost.end(), host.name()) != lost.end()) continue;
    const auto reported = reported_.find(IndexOf(host.name()));
    const ModelWorker::Held* held = nullptr;
    if (reported != reported_.end()) {
      const auto found = reported->second.find({state.name(), state.generation()});
      if (found != reported->second.end()) held = &found->second;
    }
    const bool sealed =
        held != nullptr && held->state_uid == state.uid() && held->phase == v1::SHARD_PHASE_READY;
    contents.sealed = contents.sealed && sealed;
    if (!sealed) continue;
    contents.writes.insert(held->write);
    for (const ModelWorker::Shard& shard : held->shards) {
      contents.shards.insert(shard.content);
      contents.boxes.push_back(shard);
    }
  }
  return contents;
}

// By what the server was told when it said so.
void Simulation::CheckWrites(const v1::State& state) {
  const Contents contents = ContentsOf(state);
  const bool covered = Cover(contents.boxes, state.spec().topology().hosts_size());
  const bool one = contents.sealed && contents.shards.size() <= 1;
  const std::string what = absl::StrCat(state.name(), " is ", v1::State::Phase_Name(state.phase()),
                                        " with writes ", absl::StrJoin(contents.shards, ", "));
  switch (state.phase()) {
    case v1::State::READY:
      if (!one) Violate(what);
      if (options_.planted != Planted::kWritesIgnored && contents.writes.count(state.write()) == 0)
        Violate(absl::StrCat(what, ", called ", state.write()));
      return;
    case v1::State::DEGRADED:
      if (!one || !covered || state.lost_hosts().empty()) Violate(what);
      return;
    case v1::State::LOST: {
      const bool open = AwaitsJournal(state);
      const bool whole = contents.sealed && contents.writes.size() == 1 && covered && !open;
      const bool degraded = whole && options_.layouts && state.newer_hosts().empty();
      if (degraded) Violate(what + ", though other hosts hold all of it");
      return;
    }
    default:
      return;
  }
}

// The server's answer, had it not looked at writes.
v1::State Simulation::WithPlantedPhase(v1::State state) const {
  const bool may_be = options_.planted == Planted::kDegradedIgnoresWrites &&
                      state.phase() == v1::State::LOST && state.newer_hosts().empty();
  if (!may_be) return state;
  const Contents contents = ContentsOf(state);
  const bool covered = Cover(contents.boxes, state.spec().topology().hosts_size());
  if (contents.sealed && covered) state.set_phase(v1::State::DEGRADED);
  return state;
}

// What a move read is of one write.
void Simulation::CheckSource(const v1::Commit& commit) {
  std::set<std::string> contents;
  for (const Worker& worker : workers_) {
    contents.merge(worker.model->SourceOf(commit.attempt().execution()));
  }
  if (contents.size() <= 1) return;
  Violate(absl::StrCat(commit.state(), " generation ", commit.generation(), " is of writes ",
                       absl::StrJoin(contents, ", ")));
}

}  // namespace remesh::server
