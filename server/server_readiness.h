// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/core.h"
#include "service/readiness.h"

namespace remesh::server {

// What the server's /readyz says, from before there is a core until after. Thread-safe.
class ServerReadiness {
 public:
  // Of which part of its life the process is in; kServing is the only one that is ready.
  enum class Phase { kOpeningJournal, kStarting, kServing, kStopping };

  void Enter(Phase phase);
  // Null: there is none any more; returns when nobody asks it.
  void SetCore(Core* core);

  // "serving", "journal", "controller". It must outlive them.
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
