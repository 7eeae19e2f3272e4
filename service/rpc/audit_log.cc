// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/audit_log.h"

#include <prometheus/counter.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/rpc/error_info.h"
#include "service/tls/authorization.h"

namespace remesh::service {
namespace {

using HookPoint = grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

constexpr size_t kFieldBytesMax = 512;  // an escaped byte takes at most six
constexpr size_t kIdBytesMax = 64;
constexpr size_t kLineBytesMax = 4096;
constexpr std::string_view kPackage = "/remesh.v1.";
constexpr char kUnread[] = "REQUEST_UNREADABLE";
constexpr auto kSummedUpEvery = std::chrono::minutes(1);

std::string NewRequestId() {
  thread_local std::mt19937_64 random{std::random_device()()};
  return absl::StrFormat("%016x", random());
}

std::string RequestIdOf(const grpc::ServerContextBase& context) {
  const auto given = context.client_metadata().find("x-request-id");
  if (given == context.client_metadata().end()) return NewRequestId();
  return std::string(given->second.data(), std::min(given->second.size(), kIdBytesMax));
}

std::string TextOf(absl::Time time) {
  return absl::FormatTime("%E4Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

nlohmann::ordered_json ToJson(const AuditEntry& entry, size_t field_bytes_max) {
  const auto shortened = [&](const std::string& text) { return text.substr(0, field_bytes_max); };
  return {{"time", TextOf(entry.time)},
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
  // Only ASCII: a terminal obeys some other characters, and others turn what follows them.
  return json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) + "\n";
}

bool IsDenied(absl::StatusCode code) {
  return code == absl::StatusCode::kPermissionDenied || code == absl::StatusCode::kUnauthenticated;
}

// After other errors this is not known: a change may be in progress, or done without the caller's
// knowledge.
bool ChangedNothing(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return IsDenied(code);
  }
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

std::string FormatAuditSummary(const std::string& caller, int64_t calls, absl::Time time) {
  return Dump({{"time", TextOf(time)},
               {"type", "audit_summary"},
               {"caller", caller.substr(0, kFieldBytesMax)},
               {"calls", calls}});
}

// Watches one call.
class AuditLog::Interceptor : public grpc::experimental::Interceptor {
 public:
  Interceptor(std::shared_ptr<AuditLog> log, ServerRpcInfo* info)
      : log_(std::move(log)),
        context_(info->server_context()),
        has_one_request_(info->type() == ServerRpcInfo::Type::UNARY ||
                         info->type() == ServerRpcInfo::Type::SERVER_STREAMING) {
    entry_.method = std::string(info->method()).substr(kPackage.size());
  }
  // Also ends a call that ended before a status was sent.
  ~Interceptor() override { End(grpc::Status(grpc::StatusCode::CANCELLED, "")); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(HookPoint::POST_RECV_INITIAL_METADATA)) Begin();
    if (batch->QueryInterceptionHookPoint(HookPoint::POST_RECV_MESSAGE)) {
      unread_ = has_one_request_ && batch->GetRecvMessage() == nullptr;
    }
    if (batch->QueryInterceptionHookPoint(HookPoint::PRE_SEND_STATUS)) End(batch->GetSendStatus());
    batch->Proceed();
  }

 private:
  // Reads the context while it is still valid.
  void Begin() {
    log_->Begin(context_);
    entry_.caller_id = IdentityOf(*context_).name;
    entry_.caller_address = context_->peer();
    caller_ = log_->caller_of_(*context_);
    entry_.request_id = RequestIdOf(*context_);
  }
  void End(const grpc::Status& status) {
    if (std::exchange(ended_, true)) return;
    entry_.resource = log_->TakeResource(context_);
    if (unread_) {
      // gRPC answers UNIMPLEMENTED, as if there were no such method.
      entry_.reason = kUnread;
    } else if (!status.ok()) {
      entry_.reason = GetErrorInfo(StatusFromGrpc(status)).reason;
    }
    log_->OnEnd(std::move(entry_), caller_, static_cast<absl::StatusCode>(status.error_code()));
  }

  const std::shared_ptr<AuditLog> log_;
  grpc::ServerContextBase* const context_;  // lives as long as this
  const bool has_one_request_;
  AuditEntry entry_;
  std::string caller_;
  bool unread_ = false;  // the request never came, or cannot be parsed
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

AuditLog::AuditLog(Options options, prometheus::Counter& lost)
    : is_read_(std::move(options.is_read)), caller_of_(std::move(options.caller_of)), lost_(lost) {}

AuditLog::~AuditLog() {
  absl::MutexLock lock(&mutex_);
  SumUp(absl::Now());
}

absl::StatusOr<std::shared_ptr<AuditLog>> AuditLog::Open(Options options,
                                                         prometheus::Registry& registry) {
  prometheus::Counter& lost = prometheus::BuildCounter()
                                  .Name("remesh_audit_lines_lost_total")
                                  .Help("Lines of the audit log that could not be written.")
                                  .Register(registry)
                                  .Add({});
  std::shared_ptr<AuditLog> log(new AuditLog(options, lost));
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
  change.file = nullptr;  // writes the waiting lines, which may take long
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

void AuditLog::OnEnd(AuditEntry entry, const std::string& caller, absl::StatusCode code) {
  entry.time = absl::Now();
  if (entry.caller_id.empty()) entry.caller_id = entry.caller_address;
  entry.status_code = absl::StatusCodeToString(code);
  absl::MutexLock lock(&mutex_);
  if (SteadyClock().Now() - summed_up_ >= kSummedUpEvery) SumUp(entry.time);
  if (file_ == nullptr || !HasLine(entry, caller, code)) return;
  file_->Append(FormatAudit(entry));
}

bool AuditLog::HasLine(const AuditEntry& entry, const std::string& caller, absl::StatusCode code) {
  if (is_read_(NameOfMethod(entry.method)) && !reads_ && !IsDenied(code)) return false;
  if (!ChangedNothing(code)) return true;
  const std::optional<int64_t> dropped = budget_.Take(caller, SteadyClock().Now());
  if (dropped.value_or(0) > 0) file_->Append(FormatAuditSummary(caller, *dropped, entry.time));
  return dropped.has_value();
}

void AuditLog::SumUp(absl::Time now) {
  summed_up_ = SteadyClock().Now();
  std::vector<std::pair<std::string, int64_t>> dropped = budget_.TakeDropped();
  if (const int64_t others = budget_.TakeDroppedInAll(); others > 0)
    dropped.push_back({"", others});
  if (file_ == nullptr) return;
  for (const auto& [caller, calls] : dropped) {
    file_->Append(FormatAuditSummary(caller, calls, now));
  }
}

}  // namespace remesh::service
