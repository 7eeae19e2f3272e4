// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmark/fleet/fleet_worker.h"

#include <google/protobuf/util/time_util.h>
#include <grpcpp/support/client_callback.h>

#include <deque>

#include "absl/strings/str_cat.h"

namespace remesh::benchmark {
namespace {

// `bytes` bytes that no other name gives.
std::string BytesOf(const std::string& name, size_t bytes) {
  std::string text = name;
  text.resize(bytes, '!');
  return text;
}

v1::StateManifest ManifestOf(const v1::Assignment& assignment, v1::ShardPhase phase) {
  v1::StateManifest manifest;
  manifest.set_state(assignment.state());
  manifest.set_state_uid(assignment.state_uid());
  manifest.set_generation(assignment.generation());
  manifest.set_phase(phase);
  const int shards = assignment.shards_size() + assignment.columns().devices_size();
  manifest.set_sealed_shards(shards);
  manifest.set_total_shards(shards);
  return manifest;
}

void RaiseTo(std::atomic<int64_t>& most, int64_t value) {
  int64_t before = most;
  while (before < value && !most.compare_exchange_weak(before, value)) {
  }
}

}  // namespace

// One stream of a worker. gRPC calls it from its own threads; it deletes itself at its end.
class FleetStream : public grpc::ClientBidiReactor<v1::AttachRequest, v1::AttachResponse> {
 public:
  explicit FleetStream(FleetWorker& worker) : worker_(worker) {}

  // Calls nothing of the worker, so the worker may hold its lock.
  void Start(v1::WorkerService::Stub& stub, v1::AttachRequest first) {
    context_.set_wait_for_ready(true);
    stub.async()->Attach(&context_, this);
    AddHold();  // for Send(), which comes at any time; until nothing more can be read
    Send(std::move(first));
    StartRead(&incoming_);
    StartCall();
  }

  void Send(v1::AttachRequest message) {
    absl::ReleasableMutexLock lock(&mutex_);
    if (ended_) return;
    queue_.push_back(std::move(message));
    if (writing_) return;
    writing_ = true;
    WriteFirst(lock);
  }

  void Cancel() { context_.TryCancel(); }

  void OnWriteDone(bool ok) override {
    absl::ReleasableMutexLock lock(&mutex_);
    if (!ok) return;  // the stream ends
    queue_.pop_front();
    writing_ = !queue_.empty();
    if (writing_) WriteFirst(lock);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return End();
    worker_.OnCommand(incoming_);
    incoming_.Clear();
    StartRead(&incoming_);
  }

  void OnDone(const grpc::Status&) override {
    worker_.OnStreamEnded();  // from now on it sends nothing here
    delete this;
  }

 private:
  // The message stays where it is while others are added behind it. Once the lock is released the
  // stream may end, so that it needs a hold for this write.
  void WriteFirst(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const v1::AttachRequest& first = queue_.front();
    AddHold();
    lock.Release();
    StartWrite(&first);
    RemoveHold();
  }

  void End() {
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    }
    RemoveHold();
  }

  FleetWorker& worker_;
  grpc::ClientContext context_;
  v1::AttachResponse incoming_;
  absl::Mutex mutex_;
  std::deque<v1::AttachRequest> queue_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is written any more
};

// A program on its way to a worker. Deletes itself at its end.
class FleetProgram : public grpc::ClientReadReactor<v1::HostProgram> {
 public:
  FleetProgram(FleetWorker& worker, v1::AttemptId attempt)
      : worker_(worker), attempt_(std::move(attempt)) {}

  void Start(v1::PlanService::Stub& stub, const std::string& plan, const std::string& host) {
    request_.set_plan(plan);
    request_.set_host(host);
    stub.async()->GetHostProgram(&context_, &request_, this);
    StartRead(&chunk_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    worker_.host_.counts->program_bytes += static_cast<int64_t>(chunk_.ByteSizeLong());
    StartRead(&chunk_);
  }

  void OnDone(const grpc::Status& status) override {
    FleetWorker& worker = worker_;
    {
      absl::MutexLock lock(&worker.mutex_);
      --worker.fetches_;
      if (status.ok()) {
        ++worker.host_.counts->programs;
        worker.SendPrepared(attempt_);
      } else {
        v1::AttachRequest failed;
        *failed.mutable_failed()->mutable_attempt() = attempt_;
        failed.mutable_failed()->mutable_error()->set_code(status.error_code());
        failed.mutable_failed()->mutable_error()->set_message(status.error_message());
        worker.Send(std::move(failed));
      }
    }
    delete this;
  }

 private:
  FleetWorker& worker_;
  const v1::AttemptId attempt_;
  grpc::ClientContext context_;
  v1::GetHostProgramRequest request_;
  v1::HostProgram chunk_;
};

FleetWorker::FleetWorker(FleetHost host, std::shared_ptr<grpc::Channel> channel)
    : host_(std::move(host)),
      channel_(std::move(channel)),
      workers_(v1::WorkerService::NewStub(channel_)),
      plans_(v1::PlanService::NewStub(channel_)) {}

FleetWorker::~FleetWorker() = default;

void FleetWorker::Attach() {
  absl::MutexLock lock(&mutex_);
  if (stops_ || stream_ != nullptr) return;
  last_sent_ = std::chrono::steady_clock::now();
  stream_ = new FleetStream(*this);
  stream_->Start(*workers_, RegisterMessage());
}

void FleetWorker::Beat(std::chrono::nanoseconds silence) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::chrono::steady_clock::now() - last_sent_ < silence) return;
    if (stream_ != nullptr) {
      if (!attached_) return;
      v1::AttachRequest message;
      message.mutable_heartbeat()->set_progress(++progress_);
      ++host_.counts->heartbeats;
      return Send(std::move(message));
    }
  }
  Attach();
}

void FleetWorker::Stop() {
  absl::MutexLock lock(&mutex_);
  stops_ = true;
  if (stream_ != nullptr) stream_->Cancel();
}

bool FleetWorker::stopped() {
  absl::MutexLock lock(&mutex_);
  return stops_ && stream_ == nullptr && fetches_ == 0;
}

v1::AttachRequest FleetWorker::RegisterMessage() {
  v1::AttachRequest message;
  v1::Register& identity = *message.mutable_register_();
  identity.set_host(host_.name);
  identity.set_incarnation(incarnation_);
  identity.set_last_incarnation(incarnation_);
  identity.set_boot_id("fleet");
  identity.set_host_secret(BytesOf(host_.name, 32));
  identity.set_process_nonce(BytesOf(host_.name, 16));
  identity.set_highest_epoch(epoch_);
  identity.set_supports_write_once(true);
  identity.set_supports_short_prepare(true);
  identity.set_supports_short_assign_state(true);
  for (int i = 0; i < host_.devices; ++i) identity.add_devices()->set_id(host_.first_device + i);
  v1::DataAddress& address = *identity.add_data_addresses();
  address.set_transport("tcp");
  address.set_address("10.255.255.255:47110");
  identity.set_nics(host_.devices);
  identity.set_nic_bytes_per_second(5e10);
  identity.set_fabric_bytes_per_second(4.5e11);
  if (!position_.leadership().empty()) *identity.mutable_position() = position_;
  for (const auto& [key, manifest] : held_) *identity.add_manifests() = manifest;
  return message;
}

void FleetWorker::Send(v1::AttachRequest message) {
  if (stream_ == nullptr) return;
  last_sent_ = std::chrono::steady_clock::now();
  stream_->Send(std::move(message));
}

void FleetWorker::OnStreamEnded() {
  absl::MutexLock lock(&mutex_);
  stream_ = nullptr;
  if (!std::exchange(attached_, false)) return;
  --*host_.attached;
  ++host_.counts->lost_streams;
}

void FleetWorker::OnCommand(const v1::AttachResponse& command) {
  absl::MutexLock lock(&mutex_);
  epoch_ = command.epoch();
  if (command.has_position()) position_ = command.position();
  switch (command.command_case()) {
    case v1::AttachResponse::kWelcome:
      return OnWelcome(command.welcome());
    case v1::AttachResponse::kAssignState:
      return OnAssignState(command.assign_state().assignment());
    case v1::AttachResponse::kPrepare:
      return OnPrepare(command.prepare());
    case v1::AttachResponse::kGrant:
      return OnGrant(command.grant());
    case v1::AttachResponse::kVerify: {
      v1::AttachRequest verified;
      *verified.mutable_verified()->mutable_attempt() = command.verify().attempt();
      return Send(std::move(verified));
    }
    case v1::AttachResponse::kCommit:
      return OnCommit(command.commit());
    case v1::AttachResponse::kRetire: {
      const v1::Retire& retire = command.retire();
      Forget(retire.state_uid(), retire.generation());
      v1::AttachRequest retired;
      retired.mutable_retired()->set_state(retire.state());
      retired.mutable_retired()->set_state_uid(retire.state_uid());
      retired.mutable_retired()->set_generation(retire.generation());
      return Send(std::move(retired));
    }
    case v1::AttachResponse::kForgetState: {
      const v1::ForgetState& forget = command.forget_state();
      Forget(forget.state_uid(), 0);
      v1::AttachRequest forgotten;
      forgotten.mutable_forgotten()->set_state(forget.state());
      forgotten.mutable_forgotten()->set_state_uid(forget.state_uid());
      return Send(std::move(forgotten));
    }
    case v1::AttachResponse::kAbort: {
      ++host_.counts->aborts;
      v1::AttachRequest quiesced;
      *quiesced.mutable_quiesced()->mutable_attempt() = command.abort().attempt();
      return Send(std::move(quiesced));
    }
    default:
      return;
  }
}

void FleetWorker::OnWelcome(const v1::Welcome& welcome) {
  incarnation_ = welcome.incarnation();
  cluster_uid_ = welcome.cluster_uid();
  *host_.heartbeat_nanos =
      google::protobuf::util::TimeUtil::DurationToNanoseconds(welcome.heartbeat_interval());
  if (!std::exchange(attached_, true)) ++*host_.attached;
}

// A worker tells a manifest only when it changes: not again after each Register.
void FleetWorker::OnAssignState(const v1::Assignment& assignment) {
  if (assignment.shards().empty() && assignment.columns().devices().empty()) return;
  v1::StateManifest& held = held_[{assignment.state_uid(), assignment.generation()}];
  if (held.phase() == v1::SHARD_PHASE_READY) return;
  held = ManifestOf(assignment, v1::SHARD_PHASE_READY);
  held.set_cluster_uid(cluster_uid_);
  v1::AttachRequest sealed;
  *sealed.mutable_manifest_changed()->mutable_manifest() = held;
  Send(std::move(sealed));
}

void FleetWorker::OnPrepare(const v1::Prepare& prepare) {
  const auto bytes = static_cast<int64_t>(prepare.ByteSizeLong());
  ++host_.counts->prepares;
  host_.counts->prepare_bytes += bytes;
  RaiseTo(host_.counts->largest_prepare, bytes);
  next_window_ = 0;
  target_ = ManifestOf(prepare.target(), v1::SHARD_PHASE_PREPARED);
  if (!*host_.fetches_programs) return SendPrepared(prepare.attempt());
  ++fetches_;
  auto* fetch = new FleetProgram(*this, prepare.attempt());
  fetch->Start(*plans_, prepare.plan(), host_.name);
}

void FleetWorker::SendPrepared(const v1::AttemptId& attempt) {
  v1::AttachRequest prepared;
  *prepared.mutable_prepared()->mutable_attempt() = attempt;
  Send(std::move(prepared));
}

void FleetWorker::OnGrant(const v1::Grant& grant) {
  for (; next_window_ < grant.until(); ++next_window_) {
    v1::AttachRequest done;
    *done.mutable_window_done()->mutable_attempt() = grant.attempt();
    done.mutable_window_done()->set_window(next_window_);
    Send(std::move(done));
  }
}

// A host that only sends holds nothing of the target.
void FleetWorker::OnCommit(const v1::Commit& commit) {
  ++host_.counts->commits;
  v1::AttachRequest committed;
  *committed.mutable_committed()->mutable_attempt() = commit.attempt();
  if (target_.total_shards() > 0) {
    target_.set_phase(v1::SHARD_PHASE_READY);
    target_.set_execution(commit.attempt().execution());
    target_.set_cluster_uid(cluster_uid_);
    held_[{commit.state_uid(), commit.generation()}] = target_;
    *committed.mutable_committed()->mutable_manifest() = target_;
  }
  Send(std::move(committed));
}

// Generation 0: all.
void FleetWorker::Forget(const std::string& state_uid, int64_t generation) {
  for (auto held = held_.lower_bound({state_uid, generation});
       held != held_.end() && held->first.first == state_uid;) {
    if (generation != 0 && held->first.second != generation) return;
    held = held_.erase(held);
  }
}

}  // namespace remesh::benchmark
