// SPDX-License-Identifier: Apache-2.0
#include "worker/files/files_queue.h"

namespace remesh::worker {

std::shared_ptr<FilesQueue::Job> FilesQueue::Post(Work work, Done done) {
  return PostPortions(
      [work = std::move(work)](const std::atomic<bool>& cancelled) mutable {
        work(cancelled);
        return true;
      },
      std::move(done));
}

std::shared_ptr<FilesQueue::Job> FilesQueue::PostPortions(Portion portion, Done done) {
  auto job = std::make_shared<Job>(strand_, files_, std::move(portion), std::move(done));
  files_->Post([job] { job->Run(); });
  return job;
}

void FilesQueue::Job::Run() {
  if (!begun_.exchange(true)) RunPortions();
}

void FilesQueue::Job::RunPortions() {
  while (!portion_(cancelled_)) {
    if (files_->Post([self = shared_from_this()] { self->RunPortions(); })) return;
    cancelled_ = true;
  }
  Finish();
}

void FilesQueue::Job::Cancel() {
  cancelled_ = true;
  if (!begun_.exchange(true)) Finish();
}

void FilesQueue::Job::Finish() {
  strand_->Post([self = shared_from_this()] { self->done_(); });
}

}  // namespace remesh::worker
