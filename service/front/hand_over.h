// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <list>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "base/fd.h"

namespace remesh::service {

// Hands accepted connections to gRPC on threads of its own. gRPC may read a new connection on the
// very thread that hands it over, for as long as there is something to read, so one caller who
// sends without a pause would keep the thread that accepts from everybody else.
class HandOver {
 public:
  // As many busy callers as there are threads keep new ones waiting, as with Pollers.
  static constexpr int kThreads = 16;
  // Takes a connection and must close it. Each is called on one thread only.
  using Taker = absl::AnyInvocable<void(int connection)>;

  // Starts a thread for each taker.
  explicit HandOver(std::vector<Taker> takers);
  // Waits for the takers.
  ~HandOver();
  // Closes the connections that no taker has yet, and ends the ones that takers are busy with.
  // Thread-safe, idempotent.
  void Close();

  // Queues the connection for the next taker that is free. Thread-safe.
  void Pass(Fd connection);
  // Closes the connection if no taker has it yet. Thread-safe.
  void Drop(int connection);

 private:
  void Run(Taker& taker);
  // Waits for a connection; none: it is over. `busy` is where a second descriptor of it is kept
  // while its taker runs: the taker may close the first.
  Fd Next(std::list<Fd>::iterator& busy);

  absl::Mutex mutex_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Fd> waiting_ ABSL_GUARDED_BY(mutex_);
  std::list<Fd> busy_ ABSL_GUARDED_BY(mutex_);
  std::vector<Taker> takers_;
  std::vector<std::thread> threads_;
};

}  // namespace remesh::service
