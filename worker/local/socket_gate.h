// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace remesh::worker {

// Which users may call on the Unix socket, and about which jobs.
struct SocketRules {
  std::set<uid_t> uids;  // both empty: every user that the socket's mode admits
  std::set<gid_t> gids;
  std::map<uid_t, std::string> jobs;  // a uid listed here may name states of its job only
};

// Parses the rules from settings: ids as decimal text, `jobs_json` a JSON object of uid to job, or
// "". INVALID_ARGUMENT names socket_allowed_uids, socket_allowed_gids or socket_jobs_by_uid.
absl::StatusOr<SocketRules> MakeSocketRules(const std::vector<std::string>& uids,
                                            const std::vector<std::string>& gids,
                                            const std::string& jobs_json);

// Decides whether the process at the other end of a connection may call, by the credentials that
// the kernel reports and by the rules. Thread-safe.
class SocketGate {
 public:
  // Records the caller of `fd`, a connection that was just accepted. The number `fd` is not reused
  // while a call of the connection lasts, because gRPC closes the connection after its calls.
  void Admit(int fd);
  void SetRules(SocketRules rules);

  // Whether the process at the other end of a connection may call at all, about some state.
  bool MayConnect(int fd) const;
  // Checks that `peer`, as gRPC names it ("fd:7"), may call about a state. Errors:
  // PERMISSION_DENIED (SOCKET_CALLER_REFUSED, SOCKET_JOB_REFUSED) naming uid and job.
  absl::Status Check(const std::string& peer, const std::string& state) const;
  // Checks that `peer` may call about what is no job's. PERMISSION_DENIED (SOCKET_CALLER_REFUSED).
  absl::Status CheckAny(const std::string& peer) const;
  // The user who calls from `peer`, as the kernel reported it (UserAt()).
  uid_t UserOf(const std::string& peer) const;

 private:
  struct Caller {
    uid_t uid = 0;
    std::vector<gid_t> gids;  // all groups of the process
  };
  static std::optional<Caller> CallerAt(int fd);
  // nullptr if it is unknown who calls from `peer`.
  const Caller* Find(const std::string& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Listed(const Caller& caller) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The caller, if it is listed.
  absl::StatusOr<const Caller*> FindListed(const std::string& peer, const std::string& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckJob(const Caller& caller, const std::string& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  SocketRules rules_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, Caller> callers_ ABSL_GUARDED_BY(mutex_);  // by descriptor
};

}  // namespace remesh::worker
