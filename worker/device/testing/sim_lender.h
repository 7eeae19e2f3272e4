// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/fd.h"
#include "worker/device/testing/sim_memory.h"

namespace remesh::worker {

inline SimIpcHandle SimHandleOf(std::string_view device, pid_t process, int file) {
  struct stat info {};
  fstat(file, &info);
  SimIpcHandle handle{};
  std::memcpy(handle.magic, SimIpcHandle::kMagic, sizeof(handle.magic));
  handle.pid = static_cast<uint64_t>(process);
  handle.descriptor = static_cast<uint64_t>(file);
  handle.inode = info.st_ino;
  device.copy(handle.device, sizeof(handle.device));
  return handle;
}

inline std::string BytesOf(const SimIpcHandle& handle) {
  return {reinterpret_cast<const char*>(&handle), sizeof(handle)};
}

// A process that owns an allocation of a simulated device: whole pages that begin with `content`.
class SimLender {
 public:
  SimLender(std::string_view device, std::string_view content) {
    int ends[2];
    REMESH_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    const Fd reader(ends[0]);
    process_ = fork();
    REMESH_CHECK(process_ >= 0);
    if (process_ == 0) Lend(device, content, ends[1]);
    close(ends[1]);
    SimIpcHandle handle{};
    REMESH_CHECK(read(reader.get(), &handle, sizeof(handle)) == sizeof(handle));
    handle_ = BytesOf(handle);
  }
  SimLender(const SimLender&) = delete;
  SimLender& operator=(const SimLender&) = delete;
  ~SimLender() { Die(); }

  const std::string& handle() const { return handle_; }
  void Die() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  // Runs in the child. Locks of other threads stay held there forever, so it makes only system
  // calls.
  [[noreturn]] static void Lend(std::string_view device, std::string_view content, int told) {
    constexpr size_t kPageBytes = 4096;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = memfd_create("sim-lender", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const size_t bytes = (content.size() + kPageBytes - 1) / kPageBytes * kPageBytes;
    const bool made = ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
                      pwrite(file, content.data(), content.size(), 0) >= 0 &&
                      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
    const SimIpcHandle handle = SimHandleOf(device, getpid(), file);
    if (!made || write(told, &handle, sizeof(handle)) != sizeof(handle)) _exit(1);
    while (true) pause();
  }

  pid_t process_ = -1;
  std::string handle_;
};

}  // namespace remesh::worker
