// SPDX-License-Identifier: Apache-2.0
#include "service/front/hand_over.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

namespace remesh::service {

HandOver::HandOver(std::vector<Taker> takers) : takers_(std::move(takers)) {
  for (Taker& taker : takers_) threads_.emplace_back([this, &taker] { Run(taker); });
}

void HandOver::Close() {
  absl::MutexLock lock(&mutex_);
  over_ = true;
  waiting_.clear();
  for (const Fd& connection : busy_) shutdown(connection.get(), SHUT_RDWR);
}

HandOver::~HandOver() {
  Close();
  for (std::thread& thread : threads_) thread.join();
}

void HandOver::Pass(Fd connection) {
  absl::MutexLock lock(&mutex_);
  if (!over_) waiting_.push_back(std::move(connection));
}

void HandOver::Drop(int connection) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(waiting_, [connection](const Fd& waits) { return waits.get() == connection; });
}

void HandOver::Run(Taker& taker) {
  std::list<Fd>::iterator busy;
  while (Fd connection = Next(busy)) {
    taker(connection.Release());
    absl::MutexLock lock(&mutex_);
    busy_.erase(busy);
  }
}

Fd HandOver::Next(std::list<Fd>::iterator& busy) {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return over_ || !waiting_.empty();
  };
  while (true) {
    absl::MutexLock lock(&mutex_, absl::Condition(&ready));
    if (over_) return Fd();
    Fd connection = std::move(waiting_.front());
    waiting_.pop_front();
    Fd same(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
    if (!same) continue;  // it could not be ended; no descriptors are left for it anyway
    busy = busy_.insert(busy_.end(), std::move(same));
    return connection;
  }
}

}  // namespace remesh::service
