// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace remesh::server {

// The caller on whose account a task runs. Executions go before questions.
struct Turn {
  std::string caller;
  bool execution = false;
};

// Tasks that wait for threads. Executions go first. Among equals, callers take turns, each with its
// oldest task, so that a caller waits for at most one task of each other caller, however many tasks
// that one has. A caller that runs `running_max_of_caller` tasks waits until one ends. A value with
// no lock or thread.
class FairQueue {
 public:
  using Task = absl::AnyInvocable<void()>;
  struct Limits {
    size_t waiting_max = 0;  // each, for executions and for questions
    size_t waiting_max_of_caller = 0;
    size_t running_max_of_caller = 0;
  };
  explicit FairQueue(Limits limits) : limits_(limits) {}

  // False: too many tasks wait already, in all or of this caller.
  bool Push(const Turn& turn, Task task);

  struct Next {
    std::string caller;
    Task task;
  };
  // Returns the next task that may run, which counts as running until Ended(caller); nullopt: none.
  std::optional<Next> Pop(bool executions_only);
  bool CanPop(bool executions_only) const;
  void Ended(const std::string& caller);

  size_t size() const { return lanes_[0].count + lanes_[1].count; }
  bool empty() const { return size() == 0; }

 private:
  // Tasks of one kind; `callers` is in the order of turns.
  struct Lane {
    size_t count = 0;
    std::deque<std::string> callers;
    std::map<std::string, std::deque<Task>> tasks;  // by caller; no queue is empty
  };
  bool MayRun(const std::string& caller) const;

  Limits limits_;
  std::array<Lane, 2> lanes_;  // executions, questions
  std::map<std::string, size_t> running_;
};

}  // namespace remesh::server
