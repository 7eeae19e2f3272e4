// SPDX-License-Identifier: Apache-2.0
#include "service/log/log_output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <thread>
#include <utility>

namespace remesh::service {

LogOutput& LogOutput::Stderr() {
  static auto* const output = new LogOutput();
  return *output;
}

// Signals are for other threads: this one may be stuck in a write.
void LogOutput::StartThread() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { Run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  absl::MutexLock lock(&mutex_);
  has_thread_ = true;
}

int64_t LogOutput::TakeLost() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(lost_, 0);
}

void LogOutput::Write(std::string line, int64_t told) {
  absl::MutexLock lock(&mutex_);
  if (!has_thread_) {
    if (!WriteNow(line)) lost_ += told + 1;
  } else if (waiting_.size() >= kLinesMax || waiting_bytes_ >= kBytesMax) {
    lost_ += told + 1;
  } else {
    unwritten_.fetch_add(1);
    waiting_bytes_ += line.size();
    waiting_.push_back({std::move(line), told});
  }
}

void LogOutput::Run() {
  while (true) {
    const Line line = Pop();
    if (!WriteNow(line.text)) {
      absl::MutexLock lock(&mutex_);
      lost_ += line.told + 1;
    }
    unwritten_.fetch_sub(1);
  }
}

LogOutput::Line LogOutput::Pop() {
  const auto any = [](std::deque<Line>* lines) { return !lines->empty(); };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(+any, &waiting_));
  Line line = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= line.text.size();
  return line;
}

// Returns false when it could not write all.
bool LogOutput::WriteNow(const std::string& line) {
  const std::string whole = torn_ ? "\n" + line : line;
  size_t done = 0;
  while (done < whole.size()) {
    const ssize_t written = write(STDERR_FILENO, whole.data() + done, whole.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {  // another process made the file non-blocking
      pollfd out{STDERR_FILENO, POLLOUT, 0};
      poll(&out, 1, -1);
    } else if (errno != EINTR) {
      break;
    }
  }
  if (done > 0) torn_ = done < whole.size();
  return done == whole.size();
}

void LogOutput::Flush() const {
  constexpr timespec kMillisecond{.tv_sec = 0, .tv_nsec = 1'000'000};
  for (int i = 0; i < 1000 && unwritten_.load() > 0; ++i) nanosleep(&kMillisecond, nullptr);
}

}  // namespace remesh::service
