// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/membership/worker_registry.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/states/tombstones.h"

namespace remesh::server {

// The knowledge by which a generation on a worker is judged, as this journal has it.
struct HeldView {
  const StateRegistry& states;
  const WorkerRegistry& workers;
  const Tombstones& tombstones;
  // Null: the execution is not known, or no longer known.
  absl::FunctionRef<const v1::Execution*(const std::string& name)> execution;
  // Whether the journal took the place of a later one: see Leadership::replaced_later().
  bool replaced_later = false;
  // Whether all hosts of a state hold its generation, as far as that was looked at. When a move has
  // ended, all its hosts are judged by it.
  mutable std::map<std::string, bool> held_everywhere = {};
};

// What is to become of a generation that a worker holds.
struct Verdict {
  enum class Kind : int8_t {
    kKeep,         // it is where it should be, or a running execution deals with it
    kForget,       // its state was deleted: a tombstone says so
    kAbort,        // its execution FAILED or was CANCELLED: the journal says so
    kAbortCommit,  // it was committed, and ResolveExecution took the decision back
    kCommit,       // its execution SUCCEEDED, and the host missed that
    kRetire,       // every host of the state's layout holds a newer one
    kOwed,         // none of these is certain: it stays
  };
  Kind kind = Kind::kKeep;
  std::string reason = "";  // of kOwed, for people
  // Newer than the journal knows: it was committed, or may be. Only of a host that the journal knows
  // to have part in the state, unless the journal took the place of a later one: else any worker
  // could say so of any state.
  bool newer = false;
};

// Judges a generation. Frees nothing for lack of knowledge: only what the journal itself proves to
// be free. Pure.
Verdict Judge(const std::string& host, const v1::StateManifest& manifest, const HeldView& view);

// The message that carries out a verdict. REQUIRES: `kind` is neither kKeep nor kOwed.
v1::AttachResponse ToCommand(Verdict::Kind kind, const v1::StateManifest& manifest);

}  // namespace remesh::server
