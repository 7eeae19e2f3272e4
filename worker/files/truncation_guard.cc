// SPDX-License-Identifier: Apache-2.0
#include "worker/files/truncation_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <mutex>

#include "base/check.h"

namespace remesh::worker {
namespace {

// Nothing that runs under the lock can raise SIGBUS, so the handler waits for other threads only.
// They spin for as long as one of them maps zeros over a whole mapping, which happens once a guard.
std::atomic_flag list_lock = ATOMIC_FLAG_INIT;
TruncationGuard* list_head = nullptr;
size_t page_bytes = 0;  // known before the handler is installed
struct sigaction action_before;

class ListLock {
 public:
  ListLock() {
    while (list_lock.test_and_set(std::memory_order_acquire)) continue;
  }
  ~ListLock() { list_lock.clear(std::memory_order_release); }
};

}  // namespace

TruncationGuard::TruncationGuard(std::span<std::byte> mapping) : mapping_(mapping) {
  static std::once_flag once;
  std::call_once(once, Install);
  const ListLock lock;
  next_ = list_head;
  list_head = this;
}

TruncationGuard::~TruncationGuard() {
  const ListLock lock;
  TruncationGuard** at = &list_head;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
}

void TruncationGuard::Install() {
  page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);
  REMESH_CHECK(sigaction(SIGBUS, &action, &action_before) == 0);
}

void TruncationGuard::OnBusError(int signal, siginfo_t* info, void*) {
  const int kept_errno = errno;
  // A page that the machine lost (BUS_MCEERR_*) is no truncation. After Replace(), the access is
  // repeated when the handler returns.
  const bool missing = info->si_code == BUS_ADRERR;
  if (!missing || !Replace(static_cast<const std::byte*>(info->si_addr))) {
    sigaction(SIGBUS, &action_before, nullptr);
    if (info->si_code <= 0) raise(signal);  // sent by a process: it does not come again by itself
  }
  errno = kept_errno;
}

bool TruncationGuard::Replace(const std::byte* address) {
  const ListLock lock;
  for (TruncationGuard* guard = list_head; guard != nullptr; guard = guard->next_) {
    std::byte* const first = guard->mapping_.data();
    // To the end of the last page.
    const size_t pages = (guard->mapping_.size() + page_bytes - 1) / page_bytes;
    if (address < first || address >= first + pages * page_bytes) continue;
    if (guard->hit_.exchange(true)) return true;  // another thread was here first
    // Not mmap(): UCX hooks it, and its hooks take locks.
    return syscall(SYS_mmap, first, guard->mapping_.size(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                   0) == reinterpret_cast<intptr_t>(first);
  }
  return false;
}

}  // namespace remesh::worker
