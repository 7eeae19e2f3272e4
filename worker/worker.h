// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/strand.h"
#include "prometheus/registry.h"
#include "service/metrics/config_metrics.h"
#include "service/metrics/metrics_endpoint.h"
#include "service/tls/certificate_keeper.h"
#include "worker/agent/agent.h"
#include "worker/agent/refusal.h"
#include "worker/agent/strand_pulse.h"
#include "worker/data_plane.h"
#include "worker/join_token.h"
#include "worker/local/handle_socket.h"
#include "worker/options.h"

namespace remesh::worker {

// Forward declarations keep gRPC's callbacks out of the files that include this one.
class LocalService;
class PlannerChannel;
class PlannerLink;
class ProgramFetcher;
class UnixServer;

// The whole worker of a host: serves trainers and carries out the planner's commands from Start()
// until it is destroyed. ~Worker() says in which order its parts end.
class Worker {
 public:
  // Called on any thread when the worker has become useless, with the reason. The owner should
  // destroy the worker soon.
  using Ended = std::function<void(const absl::Status&)>;

  // `options` must be Complete(), and `plane` opened for them. Errors: those of the parts, naming
  // the option.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(WorkerOptions options, DataPlane plane,
                                                       Ended ended);
  ~Worker();

  // Looks at the certificate files now. They are read again from time to time anyway.
  void ReloadCertificates();
  void SetSocketRules(SocketRules rules) { gate_.SetRules(std::move(rules)); }
  service::ConfigMetrics& config_metrics() { return config_metrics_; }
  // Takes part in no new move, gives the moves under way `patience` to end, then has the planner
  // end them. Blocks, but returns at once if no move is under way.
  void Drain(std::chrono::nanoseconds patience);
  // 0 if there is no metrics endpoint.
  int metrics_port() const { return endpoint_ == nullptr ? 0 : endpoint_->port(); }
  const std::string& data_address() const { return data_->transport_address(); }

 private:
  Worker(WorkerOptions options, Ended ended);

  void OpenSegments(const DataPlane& plane);
  absl::Status OpenStore();
  absl::Status LockDirectory();
  absl::StatusOr<Agent::Options> LoadRecord();
  void MakeLink();
  absl::Status Serve();
  std::vector<service::ReadinessCheck> Checks();
  absl::Status AgentAnswers();
  bool AgentBusy();
  bool AwaitIdle(absl::Duration patience);
  Agent::Ports MakePorts();
  v1::Register Identity() const;
  // Returns true if there is no use in dialling again soon.
  bool Disconnected(const absl::Status& status);

  const WorkerOptions options_;
  const Ended ended_;
  std::string boot_id_;
  RefusalNotes refusals_;                // used by the link's thread
  std::optional<JoinToken> join_token_;  // used by the link's thread
  std::atomic<bool> attached_ = false;   // the planner has welcomed this worker
  std::atomic<bool> started_ = false;    // buffers are adopted, trainers are served
  std::atomic<bool> stopping_ = false;
  int lock_ = -1;
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  service::TlsMetrics tls_metrics_{*registry_};
  service::ConfigMetrics config_metrics_{*registry_, absl::Now()};
  std::unique_ptr<WorkerMetrics> metrics_;
  std::shared_ptr<service::CertificateKeeper> certificates_;  // null: no TLS
  HandleTable handles_;  // of device memory for trainers, and of memory that they lend
  std::unique_ptr<DeviceSegments> segments_;  // null: buffers are files
  std::unique_ptr<BufferStore> store_;
  DataPlane plane_;  // without the transport and the devices, which data_ owns
  std::unique_ptr<DataThread> data_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<Strand> strand_;
  std::unique_ptr<StrandPulse> pulse_;  // used by the link's writer
  std::unique_ptr<Strand> files_;       // reserves memory
  std::unique_ptr<Strand> loans_;       // opens and closes what trainers lend
  std::unique_ptr<PlannerChannel> channel_;
  std::unique_ptr<ProgramFetcher> fetcher_;
  std::unique_ptr<PlannerLink> link_;
  SocketGate gate_;
  std::unique_ptr<LocalService> service_;
  std::unique_ptr<UnixServer> server_;
  std::unique_ptr<PacketServer> handle_server_;
  std::unique_ptr<service::MetricsEndpoint> endpoint_;
};

}  // namespace remesh::worker
