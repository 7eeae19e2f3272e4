// SPDX-License-Identifier: Apache-2.0
#include "service/process/thread_limits.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "service/log/log.h"

namespace remesh::service {
namespace {

void* AwaitEnd(void* end) {
  static_cast<absl::Notification*>(end)->WaitForNotification();
  return nullptr;
}

std::string FirstWord(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

// The pids.max of this process's cgroup, version 2 or 1, either at the cgroup's path or at the root
// as a container sees it; "" when there is none.
std::string PidsMax() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || (!parts[1].empty() && parts[1] != "pids")) continue;
    const std::string root = parts[1].empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    for (const std::string& folder : {root + parts[2], root}) {
      if (std::string max = FirstWord(folder + "/pids.max"); !max.empty()) return max;
    }
  }
  return "";
}

[[noreturn]] void OnTerminate() {
  try {
    if (std::current_exception() != nullptr) std::rethrow_exception(std::current_exception());
    LogError("the process ends: an exception went where none may", {{"limits", ThreadLimits()}});
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      LogError("the process ends: no thread can be started",
               {{"cause", error.what()}, {"limits", ThreadLimits()}});
      FlushLog();
      std::_Exit(1);
    }
    LogError("the process ends", {{"cause", error.what()}});
  } catch (const std::exception& error) {
    LogError("the process ends", {{"cause", error.what()}});
  } catch (...) {
    LogError("the process ends: an exception of no known type");
  }
  std::abort();
}

}  // namespace

std::string ThreadLimits() {
  rlimit processes{};
  getrlimit(RLIMIT_NPROC, &processes);
  std::string text = "RLIMIT_NPROC ";
  absl::StrAppend(
      &text, processes.rlim_cur == RLIM_INFINITY ? "unlimited" : absl::StrCat(processes.rlim_cur));
  if (const std::string max = PidsMax(); !max.empty()) absl::StrAppend(&text, ", pids.max ", max);
  return absl::StrCat(text, ", kernel.threads-max ", FirstWord("/proc/sys/kernel/threads-max"));
}

int SpareThreads() { return 64 + 4 * static_cast<int>(std::thread::hardware_concurrency()); }

absl::Status CheckSpareThreads(int spare) {
  absl::Notification end;
  std::vector<pthread_t> threads;
  int error = 0;
  while (error == 0 && static_cast<int>(threads.size()) < spare) {
    pthread_t thread;
    error = pthread_create(&thread, nullptr, AwaitEnd, &end);
    if (error == 0) threads.push_back(thread);
  }
  end.Notify();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  if (error == 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("only ", threads.size(), " of ", spare,
                                " spare threads could be started: ", std::strerror(error),
                                "; raise the lowest of: ", ThreadLimits()),
                   {.reason = "THREAD_LIMIT",
                    .metadata = {{"needed", absl::StrCat(spare)},
                                 {"started", absl::StrCat(threads.size())},
                                 {"limits", ThreadLimits()}}});
}

void ExplainTermination() { std::set_terminate(OnTerminate); }

}  // namespace remesh::service
