// SPDX-License-Identifier: Apache-2.0
#include "worker/store/files_queue.h"

namespace remesh::worker {

std::shared_ptr<FilesQueue::Job> FilesQueue::Post(Work work, Done done) {
  auto job = std::make_shared<Job>(strand_, std::move(work), std::move(done));
  files_->Post([job] { job->Run(); });
  return job;
}

void FilesQueue::Job::Run() {
  if (begun_.exchange(true)) return;
  work_(cancelled_);
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
