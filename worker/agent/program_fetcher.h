// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "base/strand.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "worker/agent/agent.h"
#include "worker/agent/planner_channel.h"

namespace remesh::worker {

// Fetches programs from the planner, one at a time, on a thread of its own.
class ProgramFetcher {
 public:
  // `channel` must outlive the fetcher.
  explicit ProgramFetcher(PlannerChannel* channel,
                          std::chrono::seconds timeout = std::chrono::seconds(120));
  // Cancels the fetch that runs; each `done` still runs.
  ~ProgramFetcher();

  // Thread-safe. Errors: the planner's, and those of ProgramReader.
  void Fetch(ProgramRequest request, Agent::ProgramDone done);

 private:
  absl::StatusOr<Program> Read(const ProgramRequest& request);

  PlannerChannel* const channel_;
  const std::chrono::seconds timeout_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Strand strand_;  // last: its task uses all of the above
};

}  // namespace remesh::worker
