// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/log/log_budget.h"
#include "service/rpc/audit_file.h"

namespace remesh::service {

// One call, as the audit log records it.
struct AuditEntry {
  absl::Time time;             // when the call ended
  std::string request_id;      // the caller's metadata x-request-id, or a random one
  std::string caller_id;       // the SPIFFE id; without one, the address
  std::string caller_address;  // as gRPC spells it
  std::string method;          // "StateService/CreateState"
  std::string resource;        // "" for a call about no resource
  std::string status_code;     // "OK", "PERMISSION_DENIED" ...
  std::string reason;          // the reason in its ErrorInfo; "" for OK
};

// A line of JSON of at most 4 KiB, whatever a caller wrote into the fields.
std::string FormatAudit(const AuditEntry& entry);
// A line of JSON that counts `calls` of `caller` that failed and have no line of their own.
// `caller` is "" for callers too many to name.
std::string FormatAuditSummary(const std::string& caller, int64_t calls, absl::Time time);

// Records who changed what and who was denied what: a line a call, written when the call has ended.
// Calls that certainly changed nothing get as many lines as LogBudget allows their caller. The log
// sums up the others, a line a caller, at the first end of a call after at most a minute.
// Thread-safe.
class AuditLog {
 public:
  static constexpr LogBudget::Rate kOfCaller{.burst = 100, .per_second = 1};
  static constexpr LogBudget::Rate kOfAll{.burst = 1000, .per_second = 20};

  struct Options {
    std::string path;  // see AuditFile; "": nothing is written
    bool reads = false;
    std::function<bool(std::string_view method)> is_read;  // of a method such as "GetState"
    // The caller whose budget a call uses.
    std::function<std::string(const grpc::ServerContextBase& context)> caller_of;
  };
  // Errors: see AuditFile::Open(). Lost lines are counted in remesh_audit_lines_lost_total;
  // `registry` must outlive the log.
  static absl::StatusOr<std::shared_ptr<AuditLog>> Open(Options options,
                                                        prometheus::Registry& registry);

  ~AuditLog();

  // Switches to another path or to other calls: Prepare() does what can fail, Apply() what cannot.
  // Calls that begin while the log has no path get no line. Only one thread may do this at a time.
  struct Change {
    std::string path;
    bool reads = false;
    std::unique_ptr<AuditFile> file;  // null: the one in use, or none
  };
  absl::StatusOr<Change> Prepare(const std::string& path, bool reads) const;
  void Apply(Change change);  // returns once the old file has its lines

  // Sets the resource that a running call is about. Has no effect once the call has ended.
  void SetResource(const grpc::ServerContextBase& context, const std::string& name);

  // For ServerBuilder: intercepts every call of remesh's services.
  static std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> NewInterceptors(
      std::shared_ptr<AuditLog> log);

 private:
  class Interceptor;
  class Factory;

  AuditLog(Options options, prometheus::Counter& lost);
  void Begin(const grpc::ServerContextBase* context);
  std::string TakeResource(const grpc::ServerContextBase* context);
  void OnEnd(AuditEntry entry, const std::string& caller, absl::StatusCode code);
  // Whether the call is worth a line and the budget allows one.
  bool HasLine(const AuditEntry& entry, const std::string& caller, absl::StatusCode code)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SumUp(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<bool(std::string_view method)> is_read_;
  const std::function<std::string(const grpc::ServerContextBase&)> caller_of_;
  prometheus::Counter& lost_;
  std::atomic<bool> writes_ = false;  // whether there is a file
  mutable absl::Mutex mutex_;
  std::string path_ ABSL_GUARDED_BY(mutex_);
  bool reads_ ABSL_GUARDED_BY(mutex_) = false;
  LogBudget budget_ ABSL_GUARDED_BY(mutex_){kOfCaller, kOfAll};
  Timestamp summed_up_ ABSL_GUARDED_BY(mutex_){0};
  std::unique_ptr<AuditFile> file_ ABSL_GUARDED_BY(mutex_);
  // By call that has not ended.
  absl::flat_hash_map<const grpc::ServerContextBase*, std::string> resources_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::service
