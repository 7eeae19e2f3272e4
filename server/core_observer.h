// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/cache/plan_cache.h"
#include "server/controller/controller.h"
#include "server/coordination/figures.h"

namespace remesh::server {

// Receives events of the core for logs and metrics. Called on the core's strand, except OnPlanned
// and OnFatal, which any thread may call.
class CoreObserver {
 public:
  virtual ~CoreObserver() = default;
  virtual void OnLog(const Note& note) = 0;
  virtual void OnExecutionEnded(const ExecutionEnded& ended) = 0;
  // A question was answered with a plan. `compute_seconds`: how long that plan took when it was
  // computed.
  virtual void OnPlanned(const v1::Planning& planning, double compute_seconds) = 0;
  // A round of a world ended; `duration` is 0 if it is not known. Called on the coordinator's
  // thread.
  virtual void OnRoundEnded(coordination::Ending, absl::Duration) {}
  // About once a second, on the coordinator's thread.
  virtual void OnWorlds(const coordination::WorldFigures&) {}
  // A few times a second.
  virtual void OnGauges(const ControllerGauges& gauges, const v1::CacheStats& plans) = 0;
  // The journal cannot be written: the process must end, because no further decision may be made.
  virtual void OnFatal(const absl::Status& status) = 0;
};

}  // namespace remesh::server
