// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/library_log.h"
#include "service/log.h"
#include "service/read_settings.h"
#include "service/signals.h"
#include "service/thread_limits.h"
#include "worker/options.h"
#include "worker/transport/tcp_transport.h"
#include "worker/transport/ucx_log.h"
#include "worker/transport/ucx_transport.h"
#include "worker/worker.h"

namespace remesh {
namespace {

struct BindAddress {
  std::string ip;
  uint16_t port = 0;
};

// "10.0.0.1", "10.0.0.1:4000", "fd00::1", "[fd00::1]:4000".
absl::StatusOr<BindAddress> BindAddressOf(const WorkerOptions& options) {
  BindAddress bind{options.data_bind_address};
  const size_t colon = options.data_bind_address.rfind(':');
  const bool bracket = options.data_bind_address.front() == '[';
  if (colon == std::string::npos || (!bracket && options.data_bind_address.find(':') != colon))
    return bind;
  uint32_t port = 0;
  if (!absl::SimpleAtoi(options.data_bind_address.substr(colon + 1), &port) || port > 65535) {
    return InvalidField("data_bind_address", options.data_bind_address, "must be IP or IP:PORT");
  }
  bind.port = static_cast<uint16_t>(port);
  bind.ip = bracket ? options.data_bind_address.substr(1, colon - 2)
                    : options.data_bind_address.substr(0, colon);
  return bind;
}

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const WorkerOptions& options) {
  ASSIGN_OR_RETURN(const BindAddress bind, BindAddressOf(options));
  if (options.transport == "tcp")
    return NewTcpTransport({.bind_address = bind.ip, .port = bind.port});
  return NewUcxTransport({.bind_address = bind.ip,
                          .port = bind.port,
                          .tls = options.ucx_tls,
                          .net_devices = options.ucx_net_devices});
}

void WritePortFile(const std::string& path, const Worker& worker) {
  if (path.empty()) return;
  // Whole or not at all: somebody waits for it.
  std::ofstream(path + ".new") << "metrics_port: " << worker.metrics_port() << "\ndata_address: \""
                               << worker.data_address() << "\"\n";
  std::rename((path + ".new").c_str(), path.c_str());
}

// With some to spare for the libraries: gRPC's grow with the machine's cores.
int ThreadsNeeded(const WorkerOptions& options) {
  constexpr int kOwn = 16;
  const int grpc = 16 + 4 * static_cast<int>(std::thread::hardware_concurrency());
  return kOwn + grpc + MetricsEndpoint::kThreads + static_cast<int>(options.copy_threads);
}

absl::Status Run(WorkerOptions options) {
  ShutdownSignal shutdown;
  RETURN_IF_ERROR(SetLogLevel(std::string_view(options.log_level)));
  RETURN_IF_ERROR(Complete(options));
  RETURN_IF_ERROR(CheckThreadsCanStart(ThreadsNeeded(options)));
  ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, MakeTransport(options));
  std::mutex mutex;
  absl::Status why;
  ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker,
                   Worker::Start(options, std::move(transport), [&](const absl::Status& status) {
                     std::lock_guard lock(mutex);
                     why = status;
                     shutdown.Trigger();
                   }));
  WritePortFile(options.port_file, *worker);
  LogInfo("worker started", {{"host", options.host},
                             {"socket_path", options.socket_path},
                             {"data_address", worker->data_address()},
                             {"metrics_port", worker->metrics_port()}});
  const int signal = shutdown.Wait();
  std::lock_guard lock(mutex);
  LogInfo("worker stops", {{"signal", signal}});
  return why;
}

int Main(int argc, char** argv) {
  ExplainTermination();
  LogGrpcAsOurs();
  LogUcxAsOurs();
  WorkerOptions options;
  Settings settings;
  AddSettings(options, settings);
  if (const auto code = ReadSettings(
          argc, argv, "The remesh worker: holds a host's buffers and moves them.", settings)) {
    return *code;
  }
  const absl::Status status = Run(std::move(options));
  if (status.ok()) return 0;
  std::cerr << "remesh-worker: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace
}  // namespace remesh

int main(int argc, char** argv) { return remesh::Main(argc, argv); }
