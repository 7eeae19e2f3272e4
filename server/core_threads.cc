// SPDX-License-Identifier: Apache-2.0
#include "server/core_threads.h"

#include <limits>

namespace remesh::server {
namespace {

constexpr int kLookupThreads = 4;
constexpr int kLongLookupThreads = 2;
constexpr int kTalkers = 2;
constexpr int kWriters = 2;  // of which one caller may use one
// Threads for work that may take long yield to those that answer calls.
constexpr int kPatientNice = 10;

}  // namespace

CoreThreads::CoreThreads(const CoreOptions& options)
    : quick_planners(
          {.threads = 1, .execution_threads = 1, .waiting_max = options.waiting_max, .fair = true}),
      planners({.threads = options.planner_threads,
                .execution_threads = 1,
                .waiting_max = options.waiting_max,
                .nice = kPatientNice,
                .fair = true}),
      lookups({.threads = kLookupThreads,
               .execution_threads = 1,
               .waiting_max = options.waiting_max,
               .fair = true}),
      long_lookups({.threads = kLongLookupThreads,
                    .execution_threads = 1,
                    .waiting_max = options.waiting_max,
                    .nice = kPatientNice,
                    .fair = true}),
      writers(
          {.threads = kWriters,
           .waiting_max = std::numeric_limits<size_t>::max(),  // gRPC and OpenWatches limit them
           .fair = true}),
      talkers({.threads = kTalkers,
               .waiting_max = std::numeric_limits<size_t>::max(),  // by the limits of worlds
               .fair = true}),
      streamers(options.stream_threads, options.waiting_max),
      programs(options.stream_threads, options.programs_waiting_max) {}

void CoreThreads::Stop() {
  for (ThreadPool* pool : {&quick_planners, &planners, &lookups, &long_lookups, &writers, &talkers})
    pool->Stop();
  streamers.Stop();
  programs.Stop();
}

}  // namespace remesh::server
