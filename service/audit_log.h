// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/audit_file.h"

namespace remesh::service {

// One call, as its line in the audit log says it.
struct AuditEntry {
  absl::Time time;             // of its end
  std::string request_id;      // the caller's metadata x-request-id, or a random one
  std::string caller_id;       // the SPIFFE id; without one, the address
  std::string caller_address;  // as gRPC spells it
  std::string method;          // "StateService/CreateState"
  std::string resource;        // "" where it is about none
  std::string status_code;     // "OK", "PERMISSION_DENIED" ...
  std::string reason;          // of its ErrorInfo; "" for OK
};

// A line of JSON of at most 4 KiB, whatever a caller wrote into the fields.
std::string FormatAudit(const AuditEntry& entry);

// Who changed what, and who was denied what: a line a call, once the call has ended. Thread-safe.
class AuditLog {
 public:
  struct Options {
    std::string path;  // see AuditFile; "": nothing is written
    bool reads = false;
    std::function<bool(std::string_view method)> is_read;  // of "GetState"
  };
  // Errors: see AuditFile::Open(). Lost lines are counted in remesh_audit_lines_lost_total;
  // `registry` must outlive the log.
  static absl::StatusOr<std::shared_ptr<AuditLog>> Open(Options options,
                                                        prometheus::Registry& registry);

  // Another path, or other calls, from now on: what can fail, then what cannot. Calls that run while
  // the log has no path yet have no line. For one thread at a time.
  struct Change {
    std::string path;
    bool reads = false;
    std::unique_ptr<AuditFile> file;  // null: the one in use, or none
  };
  absl::StatusOr<Change> Prepare(const std::string& path, bool reads) const;
  void Apply(Change change);  // returns when the old file has its lines

  // What the call is about. Of no effect once it has ended.
  void SetResource(const grpc::ServerContextBase& context, const std::string& name);

  // For ServerBuilder: sees every call of remesh's services.
  static std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> NewInterceptors(
      std::shared_ptr<AuditLog> log);

 private:
  class Interceptor;
  class Factory;

  AuditLog(std::function<bool(std::string_view)> is_read, prometheus::Counter& lost)
      : is_read_(std::move(is_read)), lost_(lost) {}
  void Begin(const grpc::ServerContextBase* context);
  std::string TakeResource(const grpc::ServerContextBase* context);
  bool reads() const {
    absl::MutexLock lock(&mutex_);
    return reads_;
  }
  void OnEnd(AuditEntry entry, const grpc::Status& status);

  const std::function<bool(std::string_view method)> is_read_;
  prometheus::Counter& lost_;
  std::atomic<bool> writes_ = false;  // there is a file
  mutable absl::Mutex mutex_;
  std::string path_ ABSL_GUARDED_BY(mutex_);
  bool reads_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<AuditFile> file_ ABSL_GUARDED_BY(mutex_);
  // Of the calls that have not ended.
  absl::flat_hash_map<const grpc::ServerContextBase*, std::string> resources_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::service
