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

// Who may call on the Unix socket, and about what.
struct SocketRules {
  std::set<uid_t> uids;  // both empty: whoever the socket's mode lets in
  std::set<gid_t> gids;
  std::map<uid_t, std::string> jobs;  // a uid that stands here may name states of its job only
};

// From settings: ids as decimal text, `jobs_json` a JSON object of uid to job, or "".
// INVALID_ARGUMENT names socket_allowed_uids, socket_allowed_gids or socket_jobs_by_uid.
absl::StatusOr<SocketRules> MakeSocketRules(const std::vector<std::string>& uids,
                                            const std::vector<std::string>& gids,
                                            const std::string& jobs_json);

// Knows who is at the other end of each connection, as the kernel says, and what the rules let him
// do. Thread-safe.
class SocketGate {
 public:
  // `fd`: a connection that was just accepted. Its number is not another's while a call of it lasts:
  // gRPC closes it after them.
  void Admit(int fd);
  void SetRules(SocketRules rules);

  // Whether whoever is at the other end of a connection may call at all, about some state.
  bool MayConnect(int fd) const;
  // Whether `peer`, as gRPC calls it ("fd:7"), may call about a state. PERMISSION_DENIED
  // (SOCKET_CALLER_REFUSED, SOCKET_JOB_REFUSED) naming uid and job.
  absl::Status Check(const std::string& peer, const std::string& state) const;

 private:
  struct Caller {
    uid_t uid = 0;
    std::vector<gid_t> gids;  // all of the process's
  };
  static std::optional<Caller> CallerAt(int fd);
  bool Listed(const Caller& caller) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckCaller(const Caller& caller, const std::string& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  SocketRules rules_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, Caller> callers_ ABSL_GUARDED_BY(mutex_);  // by descriptor
};

}  // namespace remesh::worker
