// SPDX-License-Identifier: Apache-2.0
#include "server/controller/reconcile/held.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace remesh::server {
namespace {

using Kind = Verdict::Kind;

Verdict MakeOwed(std::string reason, bool newer = false) {
  return {.kind = Kind::kOwed, .reason = std::move(reason), .newer = newer};
}

bool TakesPart(const std::string& host, const v1::Execution& execution) {
  return std::any_of(execution.hosts().begin(), execution.hosts().end(),
                     [&](const v1::HostProgress& one) { return one.host() == host; });
}

// Judges a generation by the end of the execution that wrote it, if that decides.
std::optional<Verdict> JudgeByWriter(const StateEntry& state, const v1::StateManifest& manifest,
                                     const v1::Execution& writer) {
  switch (writer.phase()) {
    case v1::Execution::FAILED:
    case v1::Execution::CANCELLED:
      if (IsPending(manifest)) return Verdict{.kind = Kind::kAbort};
      if (manifest.generation() < state.generation()) return std::nullopt;
      return MakeOwed(absl::StrCat("it is committed, but here ", writer.name(), " has failed"),
                      true);
    case v1::Execution::SUCCEEDED:
      if (manifest.generation() != state.generation() || !IsPending(manifest)) {
        return std::nullopt;
      }
      if (manifest.phase() == v1::SHARD_PHASE_VERIFIED) return Verdict{.kind = Kind::kCommit};
      return MakeOwed(
          absl::StrCat("it was never verified, but here ", writer.name(), " succeeded"));
    default:
      // The execution deals with it: see Execution::OnHostReturned.
      return Verdict{.kind = Kind::kKeep};
  }
}

bool IsHeldEverywhere(const StateEntry& state, const HeldView& view) {
  const auto [found, is_new] = view.held_everywhere.try_emplace(state.name());
  if (is_new) found->second = IsHeldNow(state, view.workers);
  return found->second;
}

Verdict JudgeByGeneration(const std::string& host, const StateEntry& state,
                          const v1::StateManifest& manifest, const HeldView& view) {
  const int64_t generation = manifest.generation();
  if (generation < state.generation()) {
    if (IsHeldEverywhere(state, view)) return {.kind = Kind::kRetire};
    return MakeOwed(absl::StrCat("generation ", state.generation(), " is not held everywhere yet"));
  }
  if (IsPending(manifest)) {
    // A server whose journal is lost may have decided to commit it.
    const bool newer =
        generation > state.generation() && manifest.phase() == v1::SHARD_PHASE_VERIFIED;
    return MakeOwed(absl::StrCat("its execution ", manifest.execution(), " is not known here"),
                    newer);
  }
  if (generation > state.generation()) {
    return MakeOwed(absl::StrCat("it is newer than generation ", state.generation(),
                                 ", the last one known here"),
                    true);
  }
  if (state.placed->hosts.contains(host) || manifest.total_shards() == 0) {
    return {.kind = Kind::kKeep};
  }
  return MakeOwed("the state does not lie on this host");
}

// As Judge(), but `newer` is as the manifest says.
Verdict JudgeByManifest(const std::string& host, const v1::StateManifest& manifest,
                        const HeldView& view, const v1::Execution* writer) {
  if (view.tombstones.contains({manifest.state(), manifest.state_uid()})) {
    return {.kind = Kind::kForget};
  }
  const StateEntry* state = view.states.Find(manifest.state());
  if (state == nullptr || state->uid() != manifest.state_uid()) {
    return MakeOwed("no state of this name and uid is known here");
  }
  const bool given_up = manifest.generation() > state->generation() &&
                        manifest.generation() <= state->declared.abandoned_generation();
  if (given_up && !IsPending(manifest)) return {.kind = Kind::kAbortCommit};
  if (writer != nullptr && writer->state_uid() == manifest.state_uid() &&
      writer->target_generation() == manifest.generation()) {
    std::optional<Verdict> verdict = JudgeByWriter(*state, manifest, *writer);
    if (verdict) return *std::move(verdict);
  }
  return JudgeByGeneration(host, *state, manifest, view);
}

}  // namespace

Verdict Judge(const std::string& host, const v1::StateManifest& manifest, const HeldView& view) {
  const v1::Execution* writer =
      manifest.execution().empty() ? nullptr : view.execution(manifest.execution());
  Verdict verdict = JudgeByManifest(host, manifest, view, writer);
  if (!verdict.newer || view.replaced_later) return verdict;
  const StateEntry& state = *view.states.Find(manifest.state());
  verdict.newer =
      state.placed->hosts.contains(host) || (writer != nullptr && TakesPart(host, *writer));
  return verdict;
}

v1::AttachResponse ToCommand(Verdict::Kind kind, const v1::StateManifest& manifest) {
  v1::AttachResponse message;
  const auto name = [&](auto& command) {
    command.set_state(manifest.state());
    command.set_state_uid(manifest.state_uid());
  };
  const auto name_attempt = [&](auto& command) {
    name(command);
    command.set_generation(manifest.generation());
    command.mutable_attempt()->set_execution(manifest.execution());
    command.mutable_attempt()->set_attempt(1);
  };
  switch (kind) {
    case Kind::kForget:
      name(*message.mutable_forget_state());
      break;
    case Kind::kAbort:
    case Kind::kAbortCommit:
      name_attempt(*message.mutable_abort());
      message.mutable_abort()->set_even_committed(kind == Kind::kAbortCommit);
      break;
    case Kind::kCommit:
      name_attempt(*message.mutable_commit());
      break;
    case Kind::kRetire:
      name(*message.mutable_retire());
      message.mutable_retire()->set_generation(manifest.generation());
      break;
    case Kind::kKeep:
    case Kind::kOwed:
      REMESH_CHECK(false && "no command carries this verdict");
  }
  return message;
}

}  // namespace remesh::server
