// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/core_options.h"
#include "server/planning/stream_threads.h"
#include "server/planning/thread_pool.h"

namespace remesh::server {

// The threads of a core beside its strand, by what waits for them: so that what is short never waits
// for what is long.
struct CoreThreads {
  explicit CoreThreads(const CoreOptions& options);

  // Drops waiting tasks and waits for running ones: see ThreadPool::Stop().
  void Stop();

  // Make small plans, and large ones.
  ThreadPool quick_planners;
  ThreadPool planners;
  // For calls that look into the plan cache and its disk but plan nothing, so that they do not wait
  // for calls that plan.
  ThreadPool lookups;
  ThreadPool long_lookups;
  // Write what the controller answers, and the values of watches. gRPC serializes a value when its
  // write starts; on the strand, a large state with many watchers, or asked for often, would hold
  // up everyone. However many tasks wait, none is refused.
  ThreadPool writers;
  // Write what members of worlds are sent, where that is large: apart from the writers, so that
  // members do not wait for callers of other services.
  ThreadPool talkers;
  // For streams other than those of `programs`.
  StreamThreads streamers;
  // For GetHostProgram, which workers wait for in the middle of a move, so that other streams do
  // not hold them up.
  StreamThreads programs;
};

}  // namespace remesh::server
