// SPDX-License-Identifier: Apache-2.0
// An operator, who mostly does what makes sense, and what the API promises of that.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/server/simulation.h"

namespace remesh::server {

void Simulation::Operate() {
  if (!options_.operates || controller_ == nullptr || now_ < paused_until_) return;
  const int host = static_cast<int>(random_() % workers_.size());
  switch (random_() % 8) {
    case 0:
    case 1:
      return ResolveAnExecution();
    case 2:
    case 3:
      return DiscardWhatIsOwed();
    case 4:
      return ResetWorker(host);
    case 5:
      return ForgetWorker(host);
    default:
      return ChangeDrained(host);
  }
}

template <typename Question>
void Simulation::Ask(Question question, std::function<void(const Reply&)> done) {
  const CallId id = next_call_++;
  calls_[id] = [this, done = std::move(done)](const absl::StatusOr<Reply>& reply) {
    if (!reply.ok()) return;
    ++operated_[Question::descriptor()->name()];
    done(*reply);
  };
  Handle(Call{.id = id, .request = std::move(question)});
}

// One that waits, or now and then any.
void Simulation::ResolveAnExecution() {
  const bool sensible = Chance(0.8);
  const auto all = AskNow<v1::ListExecutionsResponse>(v1::ListExecutionsRequest());
  std::vector<v1::Execution> executions;
  for (const v1::Execution& execution : all.executions()) {
    const bool waits = execution.phase() == v1::Execution::COMMITTING && execution.has_error();
    if (waits || !sensible) executions.push_back(execution);
  }
  if (executions.empty()) return;
  const v1::Execution& chosen = executions[random_() % executions.size()];
  v1::ResolveExecutionRequest resolve;
  resolve.set_name(chosen.name());
  resolve.set_resolution(v1::ResolveExecutionRequest::KEEP_SOURCE);
  Ask(resolve, [this, chosen](const Reply&) { CheckSourceIsWhole(chosen); });
}

// What was committed of the target is freed: the source must be there for all that the server
// knows.
void Simulation::CheckSourceIsWhole(const v1::Execution& execution) {
  const auto states = AskNow<v1::ListStatesResponse>(v1::ListStatesRequest());
  for (v1::State state : states.states()) {
    if (state.uid() != execution.state_uid()) continue;
    if (state.generation() != execution.source_generation()) {
      Violate(absl::StrCat(execution.name(), " was resolved at generation ", state.generation()));
    }
    state.set_phase(v1::State::READY);
    CheckLies(state);
  }
}

// Of one state on one host; with consent, that may be the last complete generation.
void Simulation::DiscardWhatIsOwed() {
  const auto workers = AskNow<v1::ListWorkersResponse>(v1::ListWorkersRequest());
  std::vector<std::pair<v1::Worker, v1::StateManifest>> owed;
  for (const v1::Worker& worker : workers.workers()) {
    for (const v1::OwedShards& shards : worker.owed()) owed.emplace_back(worker, shards.manifest());
  }
  if (owed.empty()) return;
  const auto& [worker, manifest] = owed[random_() % owed.size()];
  v1::DiscardShardsRequest discard;
  discard.set_name(worker.name());
  discard.set_state(manifest.state());
  discard.set_state_uid(manifest.state_uid());
  const bool consents = Chance(0.7);
  discard.set_even_last_copy(consents || options_.planted == Planted::kDiscardUnchecked);
  Ask(discard, [this, worker = worker, consents](const Reply& reply) {
    for (const v1::StateManifest& gone : std::get<v1::DiscardShardsResponse>(reply).discarded()) {
      CheckDiscarded(worker, gone, consents);
    }
  });
}

// It was listed as owed, and is no part of what a state is. Without consent the law of the last
// complete generation holds: see OnCommand().
void Simulation::CheckDiscarded(const v1::Worker& worker, const v1::StateManifest& gone,
                                bool consents) {
  const Part part = PartOf(gone);
  const std::string& host = worker.registration().host();
  if (consents) workers_[IndexOf(host)].losses.Discard(part);
  const bool listed =
      std::any_of(worker.owed().begin(), worker.owed().end(),
                  [&](const v1::OwedShards& owed) { return PartOf(owed.manifest()) == part; });
  if (!listed) Violate(absl::StrCat(host, " discards what it did not owe: ", gone.state()));
  if (gone.phase() != v1::SHARD_PHASE_READY && gone.phase() != v1::SHARD_PHASE_BUILDING) return;
  const auto states = AskNow<v1::ListStatesResponse>(v1::ListStatesRequest());
  for (const v1::State& state : states.states()) {
    if (state.uid() == part.state_uid && state.generation() == part.generation &&
        LiesOn(state, host)) {
      Violate(absl::StrCat(host, " discards what ", state.name(), " is"));
    }
  }
}

// Mostly one that is away; whoever is there is refused.
void Simulation::ResetWorker(int host) {
  if (workers_[host].alive && Chance(0.8)) return;
  v1::ResetWorkerRequest reset;
  reset.set_name(absl::StrCat("workers/host-", host));
  Ask(reset, [](const Reply&) {});
}

// Nothing may rely on it. It comes back as a stranger does, with other device ids.
void Simulation::ForgetWorker(int host) {
  if (workers_[host].alive && Chance(0.8)) return;
  const std::string name = absl::StrCat("host-", host);
  v1::ForgetWorkerRequest forget;
  forget.set_name("workers/" + name);
  ++workers_[host].drain_changes;
  workers_[host].drained_at.reset();
  device_ids_[host] = -1;  // the answer may be lost
  Ask(forget, [this, host, name](const Reply&) {
    device_ids_[host] = -1;
    const auto states = AskNow<v1::ListStatesResponse>(v1::ListStatesRequest());
    for (const v1::State& state : states.states()) {
      if (LiesOn(state, name)) Violate(absl::StrCat(name, " is forgotten with ", state.name()));
    }
  });
}

// At most one is drained for long.
void Simulation::ChangeDrained(int host) {
  for (int i = 0; i < options_.workers; ++i) {
    if (workers_[i].drained_at.has_value()) host = i;
  }
  Worker& worker = workers_[host];
  const int change = ++worker.drain_changes;
  const std::string name = absl::StrCat("workers/host-", host);
  if (worker.drained_at.has_value()) {
    worker.drained_at.reset();
    v1::UndrainWorkerRequest undrain;
    undrain.set_name(name);
    return Ask(undrain, [](const Reply&) {});
  }
  v1::DrainWorkerRequest drain;
  drain.set_name(name);
  Ask(drain, [this, host, change](const Reply&) {
    if (workers_[host].drain_changes == change) workers_[host].drained_at = handled_;
  });
}

// Whether what was asked with event `asked` may not place anything on the host.
bool Simulation::DrainedBefore(int host, uint64_t asked) const {
  const std::optional<uint64_t>& drained = workers_[host].drained_at;
  return drained.has_value() && *drained < asked;
}

}  // namespace remesh::server
