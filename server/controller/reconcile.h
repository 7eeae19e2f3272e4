// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "remesh/v1/worker.pb.h"
#include "server/controller/held.h"

namespace remesh::server {

// A generation of a state on a worker.
struct HeldGeneration {
  std::string host;
  v1::StateManifest manifest;
};

// What shall become of it: it is owed, or the worker is told something, or it stays as it is.
struct Judgement {
  HeldGeneration held;
  Verdict verdict;
  std::optional<v1::AttachResponse> command;
  std::vector<ManifestKey> gone;  // what the host no longer holds once it has the command
};

// Judges what workers hold by what the controller knows. What is certainly free goes; the rest is
// owed until something more is known. Pure: the one place where anything is freed. Skips what is on
// hosts that are away, and what went with another of the judgements.
std::vector<Judgement> Reconcile(const std::vector<HeldGeneration>& held, const HeldView& view);

// Everything that has the state's name, on all hosts that are attached.
std::vector<HeldGeneration> HeldOfState(const std::string& state, const WorkerRegistry& workers);
// What a host says that it holds when it comes.
std::vector<HeldGeneration> HeldOfHost(const v1::Register& registration);

// For an attempt that a worker still runs: how its execution ended without it. Nothing while the
// execution runs, or where it is not known.
std::optional<v1::AttachResponse> ReconcileAttempt(const v1::Execution& execution);

// For what an operator gives up: it goes whatever its state is.
v1::AttachResponse ToDiscard(const v1::StateManifest& manifest);

}  // namespace remesh::server
