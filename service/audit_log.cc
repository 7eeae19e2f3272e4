// SPDX-License-Identifier: Apache-2.0
#include "service/audit_log.h"

#include <prometheus/counter.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/authorization.h"
#include "service/error_info.h"

namespace remesh::service {
namespace {

using HookPoint = grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

constexpr size_t kFieldBytesMax = 512;  // escaped, a byte takes at most six
constexpr size_t kIdBytesMax = 64;
constexpr size_t kLineBytesMax = 4096;
constexpr std::string_view kPackage = "/remesh.v1.";

std::string NewRequestId() {
  thread_local std::mt19937_64 random{std::random_device()()};
  return absl::StrFormat("%016x", random());
}

std::string RequestIdOf(const grpc::ServerContextBase& context) {
  const auto given = context.client_metadata().find("x-request-id");
  if (given == context.client_metadata().end()) return NewRequestId();
  return std::string(given->second.data(), std::min(given->second.size(), kIdBytesMax));
}

nlohmann::ordered_json ToJson(const AuditEntry& entry, size_t field_bytes_max) {
  const auto shortened = [&](const std::string& text) { return text.substr(0, field_bytes_max); };
  return {{"time", absl::FormatTime("%E4Y-%m-%dT%H:%M:%E3SZ", entry.time, absl::UTCTimeZone())},
          {"type", "audit"},
          {"request_id", shortened(entry.request_id)},
          {"caller_id", shortened(entry.caller_id)},
          {"caller_address", shortened(entry.caller_address)},
          {"method", shortened(entry.method)},
          {"resource", shortened(entry.resource)},
          {"status_code", entry.status_code},
          {"reason", shortened(entry.reason)}};
}

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool IsDenied(grpc::StatusCode code) {
  return code == grpc::StatusCode::PERMISSION_DENIED || code == grpc::StatusCode::UNAUTHENTICATED;
}

// "CreateState" of "StateService/CreateState".
std::string_view NameOfMethod(std::string_view method) {
  return method.substr(method.rfind('/') + 1);
}

}  // namespace

std::string FormatAudit(const AuditEntry& entry) {
  std::string line = Dump(ToJson(entry, kFieldBytesMax));
  // Control characters take six bytes each.
  return line.size() <= kLineBytesMax ? line : Dump(ToJson(entry, kFieldBytesMax / 6));
}

// One call.
class AuditLog::Interceptor : public grpc::experimental::Interceptor {
 public:
  Interceptor(std::shared_ptr<AuditLog> log, ServerRpcInfo* info)
      : log_(std::move(log)), context_(info->server_context()) {
    entry_.method = std::string(info->method()).substr(kPackage.size());
  }
  // A call that ended before a status was sent.
  ~Interceptor() override { End(grpc::Status(grpc::StatusCode::CANCELLED, "")); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(HookPoint::POST_RECV_INITIAL_METADATA)) Begin();
    if (batch->QueryInterceptionHookPoint(HookPoint::PRE_SEND_STATUS)) End(batch->GetSendStatus());
    batch->Proceed();
  }

 private:
  // While the context can still be asked.
  void Begin() {
    log_->Begin(context_);
    entry_.caller_id = IdentityOf(*context_).name;
    entry_.caller_address = context_->peer();
    entry_.request_id = RequestIdOf(*context_);
  }
  void End(const grpc::Status& status) {
    if (std::exchange(ended_, true)) return;
    entry_.resource = log_->TakeResource(context_);
    log_->OnEnd(std::move(entry_), status);
  }

  const std::shared_ptr<AuditLog> log_;
  grpc::ServerContextBase* const context_;  // lives as long
  AuditEntry entry_;
  bool ended_ = false;
};

class AuditLog::Factory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(std::shared_ptr<AuditLog> log) : log_(std::move(log)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    const bool ours = log_->writes_ && std::string_view(info->method()).starts_with(kPackage);
    return ours ? new Interceptor(log_, info) : nullptr;
  }

 private:
  const std::shared_ptr<AuditLog> log_;
};

absl::StatusOr<std::shared_ptr<AuditLog>> AuditLog::Open(Options options,
                                                         prometheus::Registry& registry) {
  prometheus::Counter& lost = prometheus::BuildCounter()
                                  .Name("remesh_audit_lines_lost_total")
                                  .Help("Lines of the audit log that could not be written.")
                                  .Register(registry)
                                  .Add({});
  std::shared_ptr<AuditLog> log(new AuditLog(std::move(options.is_read), lost));
  ASSIGN_OR_RETURN(Change first, log->Prepare(options.path, options.reads));
  log->Apply(std::move(first));
  return log;
}

absl::StatusOr<AuditLog::Change> AuditLog::Prepare(const std::string& path, bool reads) const {
  Change change{.path = path, .reads = reads};
  {
    absl::MutexLock lock(&mutex_);
    if (path == path_) return change;
  }
  if (path.empty()) return change;
  ASSIGN_OR_RETURN(
      change.file,
      AuditFile::Open({.path = path, .on_lost = [&lost = lost_] { lost.Increment(); }}));
  return change;
}

void AuditLog::Apply(Change change) {
  absl::ReleasableMutexLock lock(&mutex_);
  reads_ = change.reads;
  if (change.path == path_) return;
  path_ = change.path;
  std::swap(file_, change.file);
  writes_ = file_ != nullptr;
  lock.Release();
  change.file = nullptr;  // writes what waits, which may take its time
}

void AuditLog::SetResource(const grpc::ServerContextBase& context, const std::string& name) {
  if (!writes_) return;
  absl::MutexLock lock(&mutex_);
  const auto call = resources_.find(&context);
  if (call != resources_.end()) call->second = name;
}

void AuditLog::Begin(const grpc::ServerContextBase* context) {
  absl::MutexLock lock(&mutex_);
  resources_[context] = "";
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> AuditLog::NewInterceptors(
    std::shared_ptr<AuditLog> log) {
  return std::make_unique<Factory>(std::move(log));
}

std::string AuditLog::TakeResource(const grpc::ServerContextBase* context) {
  absl::MutexLock lock(&mutex_);
  const auto node = resources_.extract(context);
  return node.empty() ? "" : node.mapped();
}

void AuditLog::OnEnd(AuditEntry entry, const grpc::Status& status) {
  const bool read = is_read_(NameOfMethod(entry.method));
  if (read && !reads() && !IsDenied(status.error_code())) return;
  entry.time = absl::Now();
  if (entry.caller_id.empty()) entry.caller_id = entry.caller_address;
  entry.status_code = absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
  if (!status.ok()) entry.reason = GetErrorInfo(StatusFromGrpc(status)).reason;
  std::string line = FormatAudit(entry);
  absl::MutexLock lock(&mutex_);
  if (file_ != nullptr) file_->Append(std::move(line));
}

}  // namespace remesh::service
