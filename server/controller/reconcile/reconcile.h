// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "remesh/v1/worker.pb.h"
#include "server/controller/reconcile/held.h"

namespace remesh::server {

// A generation of a state on a worker.
struct HeldGeneration {
  std::string host;
  v1::StateManifest manifest;
};

// The judgement on one generation: the worker gets a command, or the generation is owed, or it
// stays as it is.
struct Judgement {
  HeldGeneration held;
  Verdict verdict;
  std::optional<v1::AttachResponse> command;
  std::vector<ManifestKey> gone;  // what the host no longer holds after the command
};

// Judges what workers hold by what the controller knows. Frees what is certainly free; everything
// else is owed until more is known. Pure, and the only place that frees anything. Skips hosts that
// are away, and generations that another of the judgements already frees.
std::vector<Judgement> Reconcile(const std::vector<HeldGeneration>& held, const HeldView& view);

// Every generation of a state of this name, on all attached hosts.
std::vector<HeldGeneration> HeldOfState(const std::string& state, const WorkerRegistry& workers);
// Every generation that a host reports when it registers.
std::vector<HeldGeneration> HeldOfHost(const v1::Register& registration);

// For an attempt that a worker still runs: the command that tells it how its execution has ended.
// Nothing while the execution runs, or if its end is not known.
std::optional<v1::AttachResponse> ReconcileAttempt(const v1::Execution& execution);

// The command for a generation that an operator gives up: it frees the generation in any phase.
v1::AttachResponse ToDiscard(const v1::StateManifest& manifest);

}  // namespace remesh::server
