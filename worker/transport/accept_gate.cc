// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/accept_gate.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/fd.h"
#include "service/front/connection_table.h"
#include "service/log/log.h"

namespace remesh::worker {
namespace {

// A peer opens several for each attempt, and in tests all workers share one address.
constexpr int kConnectionsPerAddress = 1024;
constexpr absl::Duration kSilence = absl::Seconds(5);
constexpr uint64_t kFirstWords = 16;  // bytes; UCX's greetings are longer
constexpr int kPauseMillis = 10;  // after a failed accept(), as the caller may try again at once

uint64_t BytesReceived(const Fd& connection) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  getsockopt(connection.get(), IPPROTO_TCP, TCP_INFO, &info, &length);
  return info.tcpi_bytes_received;
}

class Gate {
 public:
  // Closes the connection unless it may stay; returns -1 with EAGAIN then.
  int Admit(Fd connection) {
    const std::string address = service::AddressOf(connection.get());
    absl::MutexLock lock(&mutex_);
    if (connection.get() >= ceiling_ || !table_.Admit(connection.get(), address)) {
      service::LogWarning("connection refused: too many are open", {{"address", address}});
      errno = EAGAIN;
      return -1;
    }
    young_.push_back(
        {connection.get(), service::SocketOf(connection.get()), absl::Now() + kSilence});
    return connection.Release();
  }

 private:
  struct Young {
    int fd;
    ino_t socket;
    absl::Time deadline;
  };

  [[noreturn]] void Watch() {
    while (true) {
      const Young oldest = NextYoung();
      absl::SleepFor(oldest.deadline - absl::Now());
      EndIfSilent(oldest);
    }
  }

  Young NextYoung() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](std::deque<Young>* young) { return !young->empty(); }, &young_));
    const Young next = young_.front();
    young_.pop_front();
    return next;
  }

  static void EndIfSilent(const Young& young) {
    // Through a copy of the descriptor, because its number may be reused at any time.
    const Fd same(fcntl(young.fd, F_DUPFD_CLOEXEC, 0));
    if (!same || service::SocketOf(same.get()) != young.socket ||
        BytesReceived(same) >= kFirstWords)
      return;
    shutdown(same.get(), SHUT_RDWR);  // its owner closes it
  }

  const int ceiling_ = service::RaiseDescriptorLimit();
  absl::Mutex mutex_;
  service::ConnectionTable table_ ABSL_GUARDED_BY(mutex_){kConnectionsPerAddress};
  std::deque<Young> young_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_{[this] { Watch(); }};  // last: it uses all of the above
};

Gate& TheGate() {
  static Gate* gate = new Gate;  // never destroyed: threads may outlive main
  return *gate;
}

}  // namespace

void GuardAccepts() { TheGate(); }

}  // namespace remesh::worker

extern "C" int accept(int listener, sockaddr* address, socklen_t* length) {
  remesh::Fd connection(accept4(listener, address, length, SOCK_CLOEXEC));
  if (connection) return remesh::worker::TheGate().Admit(std::move(connection));
  if (errno == EAGAIN || errno == EINTR) return -1;
  remesh::service::LogWarning("connections cannot be accepted", {{"cause", std::strerror(errno)}});
  poll(nullptr, 0, remesh::worker::kPauseMillis);
  errno = EAGAIN;
  return -1;
}
