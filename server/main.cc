// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/callers/caller.h"
#include "server/callers/join_tokens.h"
#include "server/callers/roles.h"
#include "server/check_journal.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/server_info.h"
#include "server/server_readiness.h"
#include "server/settings_reload.h"
#include "service/front/caller_limits.h"
#include "service/front/held_requests.h"
#include "service/front/listen.h"
#include "service/log/library_log.h"
#include "service/log/log.h"
#include "service/metrics/metrics_endpoint.h"
#include "service/metrics/rpc_metrics.h"
#include "service/process/heap.h"
#include "service/process/signals.h"
#include "service/process/thread_limits.h"
#include "service/rpc/audit_log.h"
#include "service/rpc/handler_interceptors.h"
#include "service/settings/read_settings.h"

namespace remesh::server {

using service::CertificateKeeper;
using service::LogInfo;
using service::MetricsEndpoint;

namespace {

absl::StatusOr<std::unique_ptr<Journal>> OpenJournal(const ServerOptions& options) {
  absl::StatusOr<std::unique_ptr<Journal>> journal = Journal::Open(
      options.journal_path,
      {.cluster_uid = options.cluster_uid, .accept_older = options.accept_older_journal});
  if (journal.ok()) {
    LogInfo("journal opened", {{"path", options.journal_path},
                               {"cluster_uid", (*journal)->past().cluster_uid},
                               {"journal_uid", (*journal)->past().journal_uid}});
  }
  if (!absl::IsDataLoss(journal.status())) return journal;
  return MakeError(absl::StatusCode::kDataLoss,
                   std::string(journal.status().message()) +
                       "; restore the file from a copy, for without it commit decisions are lost",
                   GetErrorInfo(journal.status()));
}

void WarnOfOpenDoor(const ServerOptions& options) {
  if (!options.join_token_file.empty() || !options.tls.empty()) return;
  if (IsLoopback(options.listen_address)) return;
  service::LogWarning("whoever reaches this address may join as a worker: set join_token_file",
                      {{"listen_address", options.listen_address}});
}

void WritePortFile(const std::string& path, int listen_port, int metrics_port) {
  if (path.empty()) return;
  // Appears complete or not at all, because another process waits for it.
  std::ofstream(path + ".new") << "listen_port: " << listen_port
                               << "\nmetrics_port: " << metrics_port << "\n";
  std::rename((path + ".new").c_str(), path.c_str());
}

// Either may be null; both must outlive the wait for signals.
void ReloadAtHangUp(CertificateKeeper* keeper, service::ConfigReload* settings,
                    service::ShutdownSignal& signals) {
  if (keeper == nullptr && settings == nullptr) return;
  signals.OnHangUp([=] {
    if (keeper != nullptr) keeper->Reload();
    if (settings != nullptr) settings->Reload();
  });
}

// A caller may hold a message of the largest size, of the kinds that are sent.
service::HeldRequests::Limits RequestLimits(int message_bytes_max) {
  const uint64_t of_caller = uint64_t{8} * static_cast<uint64_t>(message_bytes_max);
  return {.all = 4 * of_caller, .of_caller = of_caller};
}

Server::Options WithInterceptors(Server::Options options,
                                 const std::shared_ptr<prometheus::Registry>& registry) {
  options.unfinished_calls = std::make_shared<service::UnfinishedCalls>();
  options.message_bytes = std::make_shared<service::MessageBytes>();
  auto requests = std::make_shared<service::HeldRequests>(RequestLimits(options.message_bytes_max));
  options.extend = [registry, audit = options.audit, calls = options.unfinished_calls,
                    bytes = options.message_bytes, requests](grpc::ServerBuilder& builder) {
    auto creators = service::RpcMetricsInterceptors(
        registry,
        {"remesh.v1.StateService", "remesh.v1.PlanService", "remesh.v1.ReshardService",
         "remesh.v1.WorkerService", "remesh.v1.CoordinationService", "remesh.v1.AdminService"});
    creators.push_back(service::UnfinishedCalls::Count(calls, builder));
    creators.push_back(service::MessageBytes::Count(bytes));
    creators.push_back(service::AuditLog::NewInterceptors(audit));
    // First: the others see the status that it gives.
    creators.insert(creators.begin(), service::HeldRequests::Limit(requests, CallerOf, bytes));
    builder.experimental().SetInterceptorCreators(
        service::HandlerInterceptors::LeaveToHandlers({Server::kBusyMethod}, std::move(creators)));
  };
  return options;
}

// Null when no address for metrics is set.
absl::StatusOr<std::unique_ptr<MetricsEndpoint>> ServeMetrics(
    const ServerOptions& options, const std::shared_ptr<prometheus::Registry>& registry,
    ServerReadiness& readiness) {
  if (options.metrics_address.empty()) return nullptr;
  return MetricsEndpoint::Start(options.metrics_address, registry, readiness.Checks());
}

// What the process was started with.
struct Start {
  const service::ReadResult& read;
  const service::Settings& settings;
  const ServerOptions& options;
};

absl::StatusOr<std::shared_ptr<service::AuditLog>> OpenAudit(const ServerOptions& options,
                                                             prometheus::Registry& registry) {
  return service::AuditLog::Open({.path = options.audit_log_file,
                                  .reads = options.audit_reads,
                                  .is_read = IsRead,
                                  .caller_of = CallerOf},
                                 registry);
}

ServerDescription::Parts PartsOf(const Start& start, const JournalPast& past,
                                 const std::shared_ptr<prometheus::Registry>& registry,
                                 ServerReadiness& readiness) {
  return {.started = absl::Now(),
          .journal_uid = past.journal_uid,
          .cluster_uid = past.cluster_uid,
          .registry = registry,
          .checks = readiness.Checks(),
          .settings = start.settings.Values()};
}

// Everything from the signal to the end: first callers with work elsewhere go there, then
// executions and calls in progress may end.
void Stop(const ServerOptions& options, int signal, Core& core, Server& server) {
  LogInfo("server stops", {{"signal", signal}});
  const auto told = std::chrono::steady_clock::now();
  server.SetNotServing();
  core.Drain(options.drain);
  std::this_thread::sleep_until(told + options.drain_delay);
  server.Shutdown();
  LogInfo("server stopped");
}

absl::Status Run(const Start& start) {
  const ServerOptions& options = start.options;
  service::ShutdownSignal shutdown;
  RETURN_IF_ERROR(service::SetLog(options.log_level, options.log_format));
  RETURN_IF_ERROR(Validate(options));
  service::StartLogThread();
  for (const std::string& key : start.settings.IgnoredKeys()) {
    service::LogWarning("a setting has no effect any more: remove it", {{"key", key}});
  }
  WarnOfOpenDoor(options);
  auto registry = std::make_shared<prometheus::Registry>();
  service::TlsMetrics tls_metrics(*registry);
  service::ConfigMetrics config_metrics(*registry, absl::Now());
  ASSIGN_OR_RETURN(
      const std::shared_ptr<CertificateKeeper> keeper,
      CertificateKeeper::Start({.files = options.tls, .fields = TlsFields()}, tls_metrics));
  // Created first, so that /readyz can say why a start takes long.
  ServerReadiness readiness;
  ServerMetrics metrics(*registry);
  ASSIGN_OR_RETURN(std::unique_ptr<MetricsEndpoint> endpoint,
                   ServeMetrics(options, registry, readiness));
  // Before files are made. The server itself listens once the journal has been read.
  RETURN_IF_ERROR(service::ListenOn(options.listen_address, options.keepalive_timeout).status());
  ASSIGN_OR_RETURN(std::unique_ptr<Journal> journal, OpenJournal(options));
  readiness.Enter(ServerReadiness::Phase::kStarting);
  ServerDescription description(PartsOf(start, journal->past(), registry, readiness));
  Core::Options core_options = CoreOptionsOf(options);
  ASSIGN_OR_RETURN(core_options.controller.join_token_hashes, JoinTokensOf(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Core> core,
                   Core::Start(std::move(core_options), std::move(journal), metrics));
  readiness.SetCore(core.get());
  const absl::Cleanup forget_core = [&] { readiness.SetCore(nullptr); };
  Server::Options grpc_options = GrpcOptionsOf(options);
  grpc_options.certificates = keeper;
  ASSIGN_OR_RETURN(const std::shared_ptr<service::AuditLog> audit, OpenAudit(options, *registry));
  grpc_options.audit = audit;
  grpc_options.describe = [&description] { return description.Describe(); };
  grpc_options = WithInterceptors(std::move(grpc_options), registry);
  RETURN_IF_ERROR(service::CheckSpareThreads());
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                   Server::Start(std::move(grpc_options), *core));
  readiness.Enter(ServerReadiness::Phase::kServing);
  const int metrics_port = endpoint == nullptr ? 0 : endpoint->port();
  LogInfo("server started", {{"listen_port", server->port()}, {"metrics_port", metrics_port}});
  WritePortFile(options.port_file, server->port(), metrics_port);
  const std::unique_ptr<service::ConfigReload> reload = ReloadServerSettings(
      start.read, start.settings, options, {*core, *server, *audit, description}, config_metrics);
  ReloadAtHangUp(keeper.get(), reload.get(), shutdown);

  const int signal = shutdown.Wait();
  readiness.Enter(ServerReadiness::Phase::kStopping);
  Stop(options, signal, *core, *server);
  return absl::OkStatus();
}

int CheckJournalFile(const std::string& path) {
  const absl::StatusOr<std::string> text = DescribeJournal(path);
  if (text.ok()) std::cout << *text << std::flush;
  if (!text.ok()) service::LogLast("remesh-server", text.status());
  return text.ok() && std::cout ? 0 : 1;
}

int Main(int argc, char** argv) {
  // Debian's abseil looks for deadlocks at every lock, as only tests should.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  service::KeepFreedMemory();
  service::ExplainTermination();
  service::BoundReads();
  service::LogGrpcAsOurs();
  ServerOptions options;
  service::Settings settings;
  AddSettings(options, settings);
  const service::ReadResult read =
      service::ReadSettings(argc, argv, "The remesh server: plans reshards and drives the workers.",
                            settings, [&] { return Problems(options); },
                            {{"--check-journal",
                              "Check a backup of the journal, or one that no server has open, say "
                              "what it holds or what is wrong, and end. Nothing is written.",
                              CheckJournalFile}});
  if (read.exit_code) return *read.exit_code;
  const absl::Status status = Run({read, settings, options});
  if (status.ok()) return 0;
  service::LogLast("remesh-server", status);
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace
}  // namespace remesh::server

int main(int argc, char** argv) { return remesh::server::Main(argc, argv); }
