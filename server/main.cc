// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/join_tokens.h"
#include "server/metrics.h"
#include "server/options.h"
#include "service/heap.h"
#include "service/library_log.h"
#include "service/log.h"
#include "service/metrics_endpoint.h"
#include "service/read_settings.h"
#include "service/rpc_metrics.h"
#include "service/signals.h"
#include "service/thread_limits.h"

namespace remesh {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(1);  // with the controller, of who asks

absl::StatusOr<std::unique_ptr<Journal>> OpenJournal(const ServerOptions& options) {
  absl::StatusOr<std::unique_ptr<Journal>> journal = Journal::Open(
      options.journal_path,
      {.cluster_uid = options.cluster_uid, .accept_older = options.accept_older_journal});
  if (!absl::IsDataLoss(journal.status())) return journal;
  const char* way_out =
      options.recover_from_workers
          ? "; --recover-from-workers is not built yet: restore the file from a copy"
          : "; restore the file from a copy, for without it commit decisions are lost";
  return MakeError(absl::StatusCode::kDataLoss, std::string(journal.status().message()) + way_out,
                   GetErrorInfo(journal.status()));
}

absl::StatusOr<std::set<std::string>> JoinTokensOf(const ServerOptions& options) {
  if (!options.join_token_file.empty()) return ReadJoinTokens(options.join_token_file);
  if (options.tls.empty() && !IsLoopback(options.listen_address)) {
    LogWarning("whoever reaches this address may join as a worker: set join_token_file",
               {{"listen_address", options.listen_address}});
  }
  return std::set<std::string>();
}

void WritePortFile(const std::string& path, int listen_port, int metrics_port) {
  if (path.empty()) return;
  // Whole or not at all: somebody waits for it.
  std::ofstream(path + ".new") << "listen_port: " << listen_port
                               << "\nmetrics_port: " << metrics_port << "\n";
  std::rename((path + ".new").c_str(), path.c_str());
}

// With some to spare for the libraries: gRPC's grow with the machine's cores.
int ThreadsNeeded(const ServerOptions& options) {
  constexpr int kOwn = 24;
  const int grpc = 16 + 4 * static_cast<int>(std::thread::hardware_concurrency());
  return kOwn + grpc + MetricsEndpoint::kThreads +
         static_cast<int>(options.planner_threads + options.stream_threads);
}

absl::Status ControllerAnswers(Core& core) {
  auto answer = std::make_shared<absl::Status>();
  auto answered = std::make_shared<absl::Notification>();
  v1::ListWorkersRequest question;
  question.set_page_size(1);
  core.Call(Request(std::move(question)), [=](const absl::StatusOr<Reply>& reply) {
    *answer = reply.status();
    answered->Notify();
  });
  if (answered->WaitForNotificationWithTimeout(kPatience)) return *answer;
  return absl::UnavailableError(absl::StrCat("no answer within ", absl::FormatDuration(kPatience)));
}

// What the server's readiness is made of; `serving` and `core` must outlive it.
std::vector<ReadinessCheck> Checks(const std::atomic<bool>& serving, Core& core) {
  return {{"serving",
           [&] {
             return serving ? absl::OkStatus()
                            : absl::UnavailableError("the server starts or stops");
           }},
          {"controller", [&] { return ControllerAnswers(core); }}};
}

// The keeper, if there is one, must outlive what waits for signals.
absl::StatusOr<std::shared_ptr<CertificateKeeper>> KeepCertificates(const ServerOptions& options,
                                                                    TlsMetrics& metrics,
                                                                    ShutdownSignal& signals) {
  ASSIGN_OR_RETURN(
      std::shared_ptr<CertificateKeeper> keeper,
      CertificateKeeper::Start({.files = options.tls, .fields = TlsFields()}, metrics));
  if (keeper != nullptr) signals.OnHangUp([kept = keeper.get()] { kept->Reload(); });
  return keeper;
}

Server::Options WithMetrics(Server::Options options,
                            const std::shared_ptr<prometheus::Registry>& registry) {
  options.extend = [registry](grpc::ServerBuilder& builder) {
    builder.experimental().SetInterceptorCreators(
        RpcMetricsInterceptors(registry, {"remesh.v1.StateService", "remesh.v1.PlanService",
                                          "remesh.v1.ReshardService", "remesh.v1.WorkerService"}));
  };
  return options;
}

absl::Status Run(const ServerOptions& options) {
  ShutdownSignal shutdown;
  RETURN_IF_ERROR(SetLog(options.log_level, options.log_format));
  RETURN_IF_ERROR(Validate(options));
  RETURN_IF_ERROR(CheckThreadsCanStart(ThreadsNeeded(options)));
  auto registry = std::make_shared<prometheus::Registry>();
  TlsMetrics tls_metrics(*registry);
  ASSIGN_OR_RETURN(const std::shared_ptr<CertificateKeeper> keeper,
                   KeepCertificates(options, tls_metrics, shutdown));
  ASSIGN_OR_RETURN(std::unique_ptr<Journal> journal, OpenJournal(options));
  LogInfo("journal opened", {{"path", options.journal_path},
                             {"cluster_uid", journal->past().cluster_uid},
                             {"journal_uid", journal->past().journal_uid}});
  ServerMetrics metrics(*registry);
  Core::Options core_options = CoreOptionsOf(options);
  ASSIGN_OR_RETURN(core_options.controller.join_token_hashes, JoinTokensOf(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Core> core,
                   Core::Start(std::move(core_options), std::move(journal), metrics));
  std::atomic<bool> serving = false;
  std::unique_ptr<MetricsEndpoint> endpoint;
  if (!options.metrics_address.empty()) {
    ASSIGN_OR_RETURN(endpoint, MetricsEndpoint::Start(options.metrics_address, registry,
                                                      Checks(serving, *core)));
  }
  Server::Options grpc_options = WithMetrics(GrpcOptionsOf(options), registry);
  grpc_options.certificates = keeper;
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                   Server::Start(std::move(grpc_options), *core));
  serving = true;
  const int metrics_port = endpoint == nullptr ? 0 : endpoint->port();
  LogInfo("server started", {{"listen_port", server->port()}, {"metrics_port", metrics_port}});
  WritePortFile(options.port_file, server->port(), metrics_port);

  const int signal = shutdown.Wait();
  LogInfo("server stops", {{"signal", signal}});
  serving = false;
  server->SetNotServing();
  std::this_thread::sleep_for(options.drain_delay);
  server->Shutdown();
  LogInfo("server stopped");
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  ExplainTermination();
  LogGrpcAsOurs();
  ServerOptions options;
  Settings settings;
  AddSettings(options, settings);
  const ReadResult read =
      ReadSettings(argc, argv, "The remesh server: plans reshards and drives the workers.",
                   settings, [&] { return Problems(options); });
  if (read.exit_code) return *read.exit_code;
  const absl::Status status = Run({read, settings, options});
  if (status.ok()) return 0;
  SayLast("remesh-server", status);
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace
}  // namespace remesh

int main(int argc, char** argv) { return remesh::Main(argc, argv); }
