// SPDX-License-Identifier: Apache-2.0
#include "worker/worker.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/own_file.h"
#include "base/random_bytes.h"
#include "base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "service/front/held_requests.h"
#include "service/log/log.h"
#include "service/metrics/rpc_metrics.h"
#include "service/process/version.h"
#include "service/rpc/error_info.h"
#include "service/rpc/unreachable.h"
#include "worker/agent/agent_memory.h"
#include "worker/agent/planner_channel.h"
#include "worker/agent/planner_link.h"
#include "worker/agent/program_fetcher.h"
#include "worker/local/lending.h"
#include "worker/local/local_service.h"
#include "worker/local/unix_socket.h"

namespace remesh::worker {

using service::LogWarning;

namespace {

constexpr size_t kNonceBytes = 16;
// Of the requests of local calls; a caller is a connection.
constexpr service::HeldRequests::Limits kRequestLimits{.all = uint64_t{512} << 20,
                                                       .of_caller = uint64_t{256} << 20};
constexpr absl::Duration kPatience = absl::Seconds(1);  // for the agent's answer
constexpr absl::Duration kDrainLook = absl::Milliseconds(10);
constexpr absl::Duration kAbortPatience = absl::Seconds(5);  // for the planner's Abort

std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

// What gRPC says of a server that it does not reach names its own parts.
absl::Status InPlainWords(const absl::Status& status, bool tls) {
  if (!absl::IsUnavailable(status) || GetErrorInfo(status).reason != "UNAVAILABLE") return status;
  const std::string why = service::WhyUnreachable(std::string(status.message()), {.tls = tls});
  if (why.empty()) return status;
  return absl::UnavailableError(absl::StrCat("cannot reach it", why));
}

// Most bytes of host memory that buffers may take: the limit, or else what the file system has.
int64_t MemoryBytes(const WorkerOptions& options) {
  if (options.memory_limit_bytes > 0) return options.memory_limit_bytes;
  struct statvfs space = {};
  if (statvfs(options.buffer_directory.c_str(), &space) != 0) return 0;
  return static_cast<int64_t>(space.f_blocks) * static_cast<int64_t>(space.f_frsize);
}

}  // namespace

Worker::Worker(WorkerOptions options, Ended ended)
    : options_(std::move(options)), ended_(std::move(ended)) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options, DataPlane plane,
                                                      Ended ended) {
  auto worker = std::unique_ptr<Worker>(new Worker(std::move(options), std::move(ended)));
  const WorkerOptions& set = worker->options_;
  worker->boot_id_ = BootId();
  worker->metrics_ = std::make_unique<WorkerMetrics>(
      *worker->registry_, std::string(plane.transport->name()),
      std::string(plane.transport->stream_name()), plane.transport->encrypts());
  worker->metrics_->SetBufferBytesMax(set.memory_limit_bytes);
  ASSIGN_OR_RETURN(worker->certificates_,
                   service::CertificateKeeper::Start({.files = set.tls}, worker->tls_metrics_));
  worker->OpenSegments(plane);
  // Before the steps that take long, so that they can be observed.
  if (!set.metrics_address.empty()) {
    ASSIGN_OR_RETURN(
        worker->endpoint_,
        service::MetricsEndpoint::Start(set.metrics_address, worker->registry_, worker->Checks()));
  }
  RETURN_IF_ERROR(worker->OpenStore());
  ASSIGN_OR_RETURN(Agent::Options agent_options, worker->LoadRecord());
  for (const std::string& warning : plane.warnings) LogWarning("environment", {{"note", warning}});
  worker->plane_ = std::move(plane);
  worker->data_ = std::make_unique<DataThread>(std::move(worker->plane_.transport),
                                               std::move(worker->plane_.devices));
  worker->strand_ = std::make_unique<Strand>();
  worker->pulse_ = std::make_unique<StrandPulse>(worker->strand_.get());
  worker->files_ = std::make_unique<Strand>();
  worker->loans_ = std::make_unique<Strand>();
  worker->agent_ = std::make_unique<Agent>(
      std::move(agent_options), worker->MakePorts(), worker->strand_.get(), worker->files_.get(),
      worker->loans_.get(), worker->store_.get(), worker->data_.get(), worker->metrics_.get());
  worker->MakeLink();
  RETURN_IF_ERROR(worker->Serve());
  worker->started_ = true;
  worker->link_->Start();
  return worker;
}

// Ends the parts from the outside in: first those that could bring new work. The socket of handles
// is the exception: a lender whose connection ends takes that as leave to free its memory, so the
// socket ends when no such memory is open any more. Its callbacks use handles_ and gate_, which
// still live, and post to the strand, which drops that.
Worker::~Worker() {
  endpoint_.reset();
  if (link_ != nullptr) link_->Stop();
  if (strand_ != nullptr && agent_ != nullptr) {
    strand_->Post([this] { agent_->Close(); });
  }
  if (server_ != nullptr) server_->Shutdown(std::chrono::seconds(2));
  server_.reset();
  if (strand_ != nullptr) strand_->Stop();
  if (files_ != nullptr) files_->Stop();
  if (loans_ != nullptr) loans_->Stop();
  fetcher_.reset();
  data_.reset();
  agent_.reset();
  store_.reset();
  handle_server_.reset();
  if (lock_ >= 0) close(lock_);
}

void Worker::ReloadCertificates() {
  if (certificates_ != nullptr) certificates_->Reload();
}

void Worker::OpenSegments(const DataPlane& plane) {
  if (options_.device == "host" || options_.device_buffers != "device") return;
  std::vector<Device*> devices;
  for (const auto& device : plane.devices) devices.push_back(device.get());
  std::unique_ptr<KeeperClient> keeper;
  if (!options_.keeper_socket.empty()) {
    keeper = std::make_unique<KeeperClient>(options_.keeper_socket, options_.host);
  } else {
    LogWarning("buffers of devices end with this process",
               {{"remedy", "run remesh-keeper and set keeper_socket"}});
  }
  segments_ = std::make_unique<DeviceSegments>(LocalDevices(devices), std::move(keeper), &handles_);
}

bool Worker::AgentBusy() {
  auto busy = std::make_shared<std::atomic<bool>>(true);
  auto answered = std::make_shared<absl::Notification>();
  strand_->Post([=, this] {
    *busy = agent_->busy();
    answered->Notify();
  });
  return !answered->WaitForNotificationWithTimeout(kPatience) || *busy;
}

bool Worker::AwaitIdle(absl::Duration patience) {
  for (const absl::Time end = absl::Now() + patience; AgentBusy(); absl::SleepFor(kDrainLook)) {
    if (absl::Now() >= end) return false;
  }
  return true;
}

void Worker::Drain(std::chrono::nanoseconds patience) {
  stopping_ = true;
  strand_->Post([this] { agent_->Drain(/*at_once=*/false); });
  if (!AgentBusy()) return;
  if (!AwaitIdle(absl::FromChrono(patience))) {
    LogWarning("moves are ended, their sources stay", {{"host", options_.host}});
    strand_->Post([this] { agent_->Drain(/*at_once=*/true); });
    AwaitIdle(kAbortPatience);
  }
  // Before the stream ends, the reports of the last attempt to the planner must be on their way.
  const absl::Time end = absl::Now() + kPatience;
  while (!link_->Flushed() && absl::Now() < end) absl::SleepFor(kDrainLook);
  absl::SleepFor(kDrainLook);
}

absl::Status Worker::OpenStore() {
  BufferStore::Options options{.directory = options_.buffer_directory,
                               .memory_limit_bytes = options_.memory_limit_bytes,
                               .boot_id = boot_id_,
                               .devices = static_cast<int>(options_.devices),
                               .segments = segments_.get(),
                               .handles = &handles_,
                               .recycle_idle = absl::FromChrono(options_.recycle_idle)};
  const std::string& folder = options_.buffer_directory;
  MakeFolder(folder);
  RETURN_IF_ERROR(CheckOwnFolder("buffer_directory", folder, folder, Writers::kNone));
  RETURN_IF_ERROR(LockDirectory());
  ASSIGN_OR_RETURN(store_, BufferStore::Open(std::move(options)));
  for (const std::string& note : store_->notes()) LogWarning("buffers", {{"note", note}});
  for (const Generation* held : store_->List()) {
    service::LogInfo("buffers adopted", {{"state", held->state()},
                                         {"generation", held->number()},
                                         {"bytes", held->places.shard_bytes}});
  }
  return absl::OkStatus();
}

// Two workers on one folder would free each other's buffers.
absl::Status Worker::LockDirectory() {
  const std::string path = options_.buffer_directory + "/lock";
  absl::StatusOr<Fd> lock = OpenOwnFile(path, O_RDWR | O_CREAT, 0600);
  if (!lock.ok()) {
    return InvalidField("buffer_directory", options_.buffer_directory,
                        absl::StrCat("must be a folder that can be written: ",
                                     std::string(lock.status().message())));
  }
  lock_ = lock->Release();
  fchmod(lock_, 0600);  // whoever may open it may hold the lock
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  return InvalidField("buffer_directory", options_.buffer_directory,
                      "must not be in use by another worker");
}

absl::StatusOr<Agent::Options> Worker::LoadRecord() {
  ASSIGN_OR_RETURN(AgentMemory memory, AgentMemory::Open(options_.buffer_directory + "/agent"));
  Agent::Options options{
      .identity = Identity(),
      .memory = std::move(memory),
      .mover = {.limits = {static_cast<int>(options_.slices_in_flight), options_.staging_bytes},
                .rechecks_always = options_.recheck_sources == "always"},
      .server = {}};
  options.server = ServerForTrainers(options_);
  return options;
}

v1::Register Worker::Identity() const {
  v1::Register identity;
  identity.set_host(options_.host);
  identity.set_process_nonce(RandomBytes(kNonceBytes));
  identity.set_boot_id(boot_id_);
  const int64_t memory = MemoryBytes(options_);
  for (int64_t i = 0; i < options_.devices; ++i) {
    v1::WorkerDevice& device = *identity.add_devices();
    device.set_id(HasAssignedIds(options_) ? -1 : std::atoll(options_.device_ids[i].c_str()));
    device.set_kind(options_.device == "cuda" ? v1::WorkerDevice::KIND_CUDA
                                              : v1::WorkerDevice::KIND_HOST);
    device.set_memory_bytes(memory / options_.devices + (i < memory % options_.devices ? 1 : 0));
  }
  identity.set_nic_bytes_per_second(options_.nic_bytes_per_second);
  identity.set_nics(static_cast<int32_t>(options_.nics));
  identity.set_fabric_bytes_per_second(options_.fabric_bytes_per_second);
  identity.set_nic_message_seconds(options_.nic_message_seconds);
  identity.set_fabric_message_seconds(options_.fabric_message_seconds);
  identity.set_post_seconds(options_.post_seconds);
  identity.set_posting_threads(static_cast<int32_t>(options_.posting_threads));
  identity.set_lendable_bytes(MachineBytes());
  identity.set_capacities_assumed(options_.capacities_assumed);
  identity.set_parent(options_.parent);
  identity.set_version(service::kVersion);
  return identity;
}

Agent::Ports Worker::MakePorts() {
  Agent::Ports ports;
  ports.send = [this](const v1::AttachRequest& message) { link_->Send(message); };
  ports.disconnect = [this](const absl::Status& why) {
    service::LogError("the planner's commands are refused",
                      {{"server", options_.server_address}, {"error", why}});
    link_->Disconnect();
  };
  ports.unusable = [this](const absl::Status& why) {
    service::LogError(
        "a device is in a state of error: this process ends, its successor can use it again",
        {{"error", why}});
    ended_(why);
  };
  ports.welcomed = [this](const v1::Welcome& welcome) {
    link_->SetHeartbeatInterval(std::chrono::nanoseconds(
        google::protobuf::util::TimeUtil::DurationToNanoseconds(welcome.heartbeat_interval())));
    attached_ = true;
    metrics_->SetAttached(true);
    service::LogInfo("attached", {{"server", options_.server_address},
                                  {"device_ids", absl::StrJoin(welcome.device_ids(), ",")}});
  };
  ports.fetch = [this](ProgramRequest request, Agent::ProgramDone done) {
    fetcher_->Fetch(std::move(request), std::move(done));
  };
  return ports;
}

void Worker::MakeLink() {
  PlannerLink::Events events;
  join_token_.emplace(options_.join_token_file, options_.join_token);
  events.connected = [this] {
    strand_->Post([this, token = join_token_->Read()] {
      v1::AttachRequest first;
      *first.mutable_register_() = agent_->Attaching();
      first.mutable_register_()->set_join_token(token);
      link_->Begin(std::move(first));
    });
  };
  events.received = [this](v1::AttachResponse response) {
    strand_->Post([this, response = std::move(response)] { agent_->Command(response); });
  };
  events.disconnected = [this](const grpc::Status& status) {
    attached_ = false;
    metrics_->SetAttached(false);
    strand_->Post([this] {
      agent_->Disconnected();
      store_->EmptyPool();
    });
    return Disconnected(service::StatusFromGrpc(status));
  };
  events.heartbeat = [this] {
    metrics_->CountHeartbeat();
    if (segments_ != nullptr) metrics_->SetDeviceBufferBytes(segments_->bytes());
    strand_->Post([this] {
      store_->TrimPool();
      agent_->calls().AskAgain();
    });
  };
  events.beat = [this] {
    v1::Heartbeat beat;
    beat.set_progress(pulse_->Beat());
    data_->AddSlices(beat);
    return beat;
  };
  channel_ = std::make_unique<PlannerChannel>(PlannerAddress{
      .address = options_.server_address,
      .keepalive = {.time = options_.keepalive_time, .timeout = options_.keepalive_timeout},
      .certificates = certificates_,
      .tls_server_name = options_.tls_server_name});
  fetcher_ = std::make_unique<ProgramFetcher>(channel_.get());
  link_ = std::make_unique<PlannerLink>(channel_.get(), PlannerLink::Options(), std::move(events));
}

bool Worker::Disconnected(const absl::Status& status) {
  const std::optional<Refusal> refusal = RefusalOf(status, options_.host);
  if (!refusal) {
    refusals_.Forget();
    LogWarning("not attached", {{"server", options_.server_address},
                                {"error", InPlainWords(status, certificates_ != nullptr)}});
    return false;
  }
  if (refusal->superseded) {
    ended_(absl::Status(status.code(), absl::StrCat(status.message(), "; ", refusal->remedy)));
  } else if (refusals_.IsDue(status, SteadyClock().Now())) {
    LogWarning(
        "the planner refuses this worker",
        {{"server", options_.server_address}, {"error", status}, {"remedy", refusal->remedy}});
  }
  return true;
}

std::vector<service::ReadinessCheck> Worker::Checks() {
  return {{"attached",
           [this] {
             if (!started_) return absl::UnavailableError("the worker starts");
             if (stopping_) return absl::UnavailableError("the worker stops");
             return attached_ ? absl::OkStatus()
                              : absl::UnavailableError(absl::StrCat(
                                    "not attached to the server at ", options_.server_address));
           }},
          {"buffers",
           [this] {
             return started_ ? absl::OkStatus() : absl::UnavailableError("buffers are adopted");
           }},
          {"agent", [this] { return AgentAnswers(); }},
          {"keeper", [this] {
             return segments_ == nullptr ? absl::OkStatus() : segments_->keeper_status();
           }}};
}

absl::Status Worker::AgentAnswers() {
  if (!started_) return absl::UnavailableError("the worker starts");
  auto answered = std::make_shared<absl::Notification>();
  if (!strand_->Post([=] { answered->Notify(); }))
    return absl::UnavailableError("the worker stops");
  if (answered->WaitForNotificationWithTimeout(kPatience)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no answer within ", absl::FormatDuration(kPatience)));
}

absl::Status Worker::Serve() {
  ASSIGN_OR_RETURN(SocketRules rules, SocketRulesOf(options_));
  gate_.SetRules(std::move(rules));
  service_ =
      std::make_unique<LocalService>(strand_.get(), &agent_->buffers(), &agent_->calls(), &gate_);
  grpc::ServerBuilder builder;
  builder.RegisterService(service_.get());
  auto calls = std::make_shared<service::UnfinishedCalls>();
  auto creators = service::RpcMetricsInterceptors(registry_, {"remesh.v1.LocalService"});
  auto bytes = std::make_shared<service::MessageBytes>();
  creators.push_back(service::UnfinishedCalls::Count(calls, builder));
  creators.push_back(service::MessageBytes::Count(bytes));
  // First: the others see the status that it gives.
  creators.insert(
      creators.begin(),
      service::HeldRequests::Limit(
          std::make_shared<service::HeldRequests>(kRequestLimits),
          [](const grpc::ServerContextBase& context) { return context.peer(); }, bytes));
  builder.experimental().SetInterceptorCreators(std::move(creators));
  ASSIGN_OR_RETURN(server_, UnixServer::Start(builder, options_.socket_path, gate_,
                                              {.unfinished_calls = std::move(calls),
                                               .message_bytes = std::move(bytes)}));
  ASSIGN_OR_RETURN(handle_server_, ServeHandles(options_.socket_path, &handles_, &gate_, [this] {
                     strand_->Post([this] { agent_->buffers().GiveLost(); });
                   }));
  return absl::OkStatus();
}

}  // namespace remesh::worker
