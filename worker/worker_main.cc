// SPDX-License-Identifier: Apache-2.0
#include "worker/worker_main.h"

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/front/caller_limits.h"
#include "service/log/library_log.h"
#include "service/log/log.h"
#include "service/process/heap.h"
#include "service/process/signals.h"
#include "service/process/thread_limits.h"
#include "service/settings/read_settings.h"
#include "worker/data_plane.h"
#include "worker/options.h"
#include "worker/settings_reload.h"
#include "worker/transport/ucx_log.h"
#include "worker/worker.h"

namespace remesh::worker {
namespace {

void WritePortFile(const std::string& path, const Worker& worker) {
  if (path.empty()) return;
  // Written to a new file and renamed, because another process waits for the complete file.
  std::ofstream(path + ".new") << "metrics_port: " << worker.metrics_port() << "\ndata_address: \""
                               << worker.data_address() << "\"\n";
  std::rename((path + ".new").c_str(), path.c_str());
}

// `settings` belongs to other options: this function completes a copy.
absl::Status Run(const service::ReadResult& read, const service::Settings& settings,
                 WorkerOptions options) {
  service::ShutdownSignal shutdown;
  RETURN_IF_ERROR(service::SetLog(options.log_level, options.log_format));
  RETURN_IF_ERROR(Complete(options));
  RETURN_IF_ERROR(CountDevices(options));
  service::StartLogThread();
  std::mutex mutex;
  absl::Status why;
  const auto end = [&](const absl::Status& status) {
    std::lock_guard lock(mutex);
    why = status;
    shutdown.Trigger();
  };
  ASSIGN_OR_RETURN(DataPlane plane, OpenDataPlane(options, [&] {
                     service::LogError("a GPU does not let go of an attempt; this process must end",
                                       {});
                     service::FlushLog();
                     std::_Exit(1);
                   }));
  RETURN_IF_ERROR(service::CheckSpareThreads());
  ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker, Worker::Start(options, std::move(plane), end));
  WritePortFile(options.port_file, *worker);
  service::LogInfo("worker started", {{"host", options.host},
                                      {"socket_path", options.socket_path},
                                      {"data_address", worker->data_address()},
                                      {"metrics_port", worker->metrics_port()}});
  const std::unique_ptr<service::ConfigReload> reload =
      ReloadWorkerSettings(read, settings, options.gpus, *worker);
  if (reload != nullptr || !options.tls.empty()) {
    shutdown.OnHangUp([&] {
      worker->ReloadCertificates();
      if (reload != nullptr) reload->Reload();
    });
  }
  const int signal = shutdown.Wait();
  service::LogInfo("worker stops", {{"signal", signal}});
  if (signal != 0) worker->Drain(options.drain);
  std::lock_guard lock(mutex);
  return why;
}

}  // namespace

int WorkerMain(int argc, char** argv, const std::vector<GpuKind>& gpus) {
  // Debian's abseil looks for deadlocks at every lock, as only tests should.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  service::KeepFreedMemory();
  service::ExplainTermination();
  service::BoundReads();
  service::LogGrpcAsOurs();
  LogUcxAsOurs();
  WorkerOptions options;
  options.gpus = gpus;
  service::Settings settings;
  AddSettings(options, settings);
  const service::ReadResult read =
      service::ReadSettings(argc, argv, "The remesh worker: holds a host's buffers and moves them.",
                            settings, [&] { return Problems(options); });
  if (read.exit_code) return *read.exit_code;
  const absl::Status status = Run(read, settings, options);
  if (status.ok()) return 0;
  service::LogLast("remesh-worker", status);
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace remesh::worker
