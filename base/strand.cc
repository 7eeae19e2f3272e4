// SPDX-License-Identifier: Apache-2.0
#include "base/strand.h"

#include <utility>

#include "base/check.h"

namespace remesh {

Strand::Strand() : thread_([this] { Run(); }) {}

Strand::~Strand() { Stop(); }

bool Strand::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  tasks_.push_back(std::move(task));
  return true;
}

void Strand::Stop() {
  REMESH_CHECK(std::this_thread::get_id() != thread_.get_id());
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Strand::Run() {
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](Strand* strand) ABSL_EXCLUSIVE_LOCKS_REQUIRED(strand->mutex_) {
            return strand->stopping_ || !strand->tasks_.empty();
          },
          this));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace remesh
