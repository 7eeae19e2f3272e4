// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/core.h"
#include "service/metrics/readiness.h"

namespace remesh::server {

// Decides what the server's /readyz says, through the whole life of the process: also before the
// core exists and after it is gone. Thread-safe.
class ServerReadiness {
 public:
  // The part of its life that the process is in. Only kServing is ready.
  enum class Phase { kOpeningJournal, kStarting, kServing, kStopping };

  void Enter(Phase phase);
  // Null: the core is gone. Returns only when no check is using the previous core.
  void SetCore(Core* core);

  // The checks "serving", "journal" and "controller". This object must outlive them.
  std::vector<service::ReadinessCheck> Checks();

 private:
  absl::Status CheckServing() const;
  absl::Status CheckJournal() const;
  absl::Status CheckController() const;

  mutable absl::Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kOpeningJournal;
  Core* core_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace remesh::server
