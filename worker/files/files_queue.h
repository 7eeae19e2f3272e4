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
  // Does a part of some work. Returns true when nothing is left of the work.
  using Portion = absl::AnyInvocable<bool(const std::atomic<bool>& cancelled)>;
  using Done = absl::AnyInvocable<void()>;

  class Job : public std::enable_shared_from_this<Job> {
   public:
    Job(Strand* strand, Strand* files, Portion portion, Done done)
        : strand_(strand), files_(files), portion_(std::move(portion)), done_(std::move(done)) {}
    // Gives the work up: at once if it has not begun, however long the queue before it, else when
    // the work looks at its flag. `done` still runs. Thread-safe.
    void Cancel();

   private:
    friend class FilesQueue;
    void Run();
    void RunPortions();
    void Finish();

    Strand* const strand_;
    Strand* const files_;
    std::atomic<bool> begun_ = false;  // or was cancelled before that
    std::atomic<bool> cancelled_ = false;
    Portion portion_;
    Done done_;
  };

  // Both strands must outlive the jobs, and `files` what Own() made.
  FilesQueue(Strand* strand, Strand* files) : strand_(strand), files_(files) {}

  // Runs `work` on `files`, then `done` on `strand`, never before Post() returns. A job that is
  // cancelled before it begins runs `done` only.
  std::shared_ptr<Job> Post(Work work, Done done);
  // Like Post(), but runs `portion` until it returns true. After each call, all other work that
  // waits on `files` has its turn. After `files` has stopped, `cancelled` is true.
  std::shared_ptr<Job> PostPortions(Portion portion, Done done);

  // Makes a T that ends on `files`, because that takes long, whoever lets go of it last: calls
  // EndSome(T&), which frees a part, until that returns true. After each call, all other work that
  // waits on `files` has its turn. After `files` has stopped, the T ends where its last owner is.
  template <typename T>
  std::shared_ptr<T> Own() const {
    return std::shared_ptr<T>(
        new T, [files = files_](T* last) { EndLater(files, std::unique_ptr<T>(last)); });
  }

 private:
  // A task that `files` refuses is destroyed, and what it owns with it.
  template <typename T>
  static void EndLater(Strand* files, std::unique_ptr<T> owned) {
    files->Post([files, owned = std::move(owned)]() mutable {
      if (!EndSome(*owned)) EndLater(files, std::move(owned));
    });
  }

  Strand* const strand_;
  Strand* const files_;
};

}  // namespace remesh::worker
