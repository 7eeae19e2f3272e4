// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "base/strand.h"

namespace remesh::worker {

// Runs slow work on files and memory, such as reserving or opening it, off the strand that decides:
// one job after another.
class FilesQueue {
 public:
  using Work = absl::AnyInvocable<void(const std::atomic<bool>& cancelled)>;
  using Done = absl::AnyInvocable<void()>;

  class Job : public std::enable_shared_from_this<Job> {
   public:
    Job(Strand* strand, Work work, Done done)
        : strand_(strand), work_(std::move(work)), done_(std::move(done)) {}
    // Gives the work up: at once if it has not begun, however long the queue before it, else when
    // the work looks at its flag. `done` still runs. Thread-safe.
    void Cancel();

   private:
    friend class FilesQueue;
    void Run();
    void Finish();

    Strand* const strand_;
    std::atomic<bool> begun_ = false;  // or was cancelled before that
    std::atomic<bool> cancelled_ = false;
    Work work_;
    Done done_;
  };

  // Both strands must outlive the jobs, and `files` what Own() made.
  FilesQueue(Strand* strand, Strand* files) : strand_(strand), files_(files) {}

  // Runs `work` on `files`, then `done` on `strand`, never before Post() returns. A job that is
  // cancelled before it begins runs `done` only.
  std::shared_ptr<Job> Post(Work work, Done done);

  // Makes a T that ends on `files`, because that takes long, whoever lets go of it last. After
  // `files` has stopped, it ends where its last owner is.
  template <typename T>
  std::shared_ptr<T> Own() const {
    return std::shared_ptr<T>(new T, [files = files_](T* last) {
      files->Post([owned = std::unique_ptr<T>(last)]() mutable { owned.reset(); });
    });
  }

 private:
  Strand* const strand_;
  Strand* const files_;
};

}  // namespace remesh::worker
