// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/state_registry.h"
#include "server/controller/tombstones.h"
#include "server/controller/worker_registry.h"

namespace remesh::server {

// What a generation on a worker is judged by. Everything is as this journal has it.
struct HeldView {
  const StateRegistry& states;
  const WorkerRegistry& workers;
  const Tombstones& tombstones;
  // Null: not known (any more).
  absl::FunctionRef<const v1::Execution*(const std::string& name)> execution;
};

// What shall become of it.
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
  bool newer = false;       // than the journal knows: somebody committed, or may have
};

// Nothing is freed for lack of knowledge: only what the journal itself proves to be free goes.
// Pure.
Verdict Judge(const std::string& host, const v1::StateManifest& manifest, const HeldView& view);

// The message that carries a verdict out. REQUIRES: neither kKeep nor kOwed.
v1::AttachResponse ToCommand(Verdict::Kind kind, const v1::StateManifest& manifest);

}  // namespace remesh::server
