// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/server/simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "proto/program/shard_columns.h"
#include "server/controller/values/records.h"
#include "tests/simulation/server/flipped_journal.h"

namespace remesh::server {

constexpr int64_t kMillisecond = 1000;
constexpr int64_t kSecond = 1'000'000;

namespace {

// Spells out shards that come in columns, as workers do.
void ExpandColumns(v1::AttachResponse& command) {
  v1::Assignment* assignment = nullptr;
  if (command.has_prepare()) assignment = command.mutable_prepare()->mutable_target();
  if (command.has_assign_state()) assignment = command.mutable_assign_state()->mutable_assignment();
  if (assignment != nullptr) REMESH_CHECK(proto::ColumnsToShards(*assignment).ok());
}

}  // namespace

Simulation::Simulation(Options options)
    : options_(std::move(options)),
      faults_(options_.seed, options_.faults),
      random_(options_.seed) {
  for (int i = 0; i < options_.workers; ++i) {
    ModelWorker::Callbacks callbacks{
        .send = [this, i](v1::AttachRequest message) { Send(i, std::move(message)); },
        .fails = [this] { return faults_.Draw(Fault::kAttemptFailure); },
        .violation = [this](const std::string& what) { Violate(what); },
        .committing = [this](const v1::Commit& commit) { CheckCommit(commit); },
        .filling = [this, i](const std::string& uid) { CheckFill(absl::StrCat("host-", i), uid); }};
    const int64_t device = options_.assigned_ids ? kAssignedDeviceId : i;
    // Some hosts have no NCCL, and take part in attempts of those that have it.
    workers_.push_back({.model = std::make_unique<ModelWorker>(absl::StrCat("host-", i), device,
                                                               i % 3 != 1, std::move(callbacks))});
    device_ids_.push_back(-1);
  }
  if (options_.planted == Planted::kWritesIgnored) workers_[1].model->IgnoreWrites();
  StartServer();
  for (int i = 0; i < options_.workers; ++i) Attach(i);
}

int Simulation::reused_communicators() const {
  int reused = 0;
  for (const Worker& worker : workers_) reused += worker.model->reused();
  return reused;
}

void Simulation::At(int64_t time, std::function<void()> what) {
  agenda_[{time, order_++}] = std::move(what);
}

void Simulation::Violate(std::string what) {
  violations_.push_back(
      absl::StrCat("seed ", options_.seed, " at ", now_ / kMillisecond, " ms: ", what));
}

void Simulation::Run(double seconds) {
  const int64_t end = now_ + static_cast<int64_t>(seconds * kSecond);
  for (int64_t t = now_; t < end; t += 100 * kMillisecond) {
    At(t, [this] { Handle(Tick{}); });
    At(t + 1, [this] { Heartbeat(); });
    At(t + 2, [this] { RestartIfBehind(); });
    if (settling_) {
      At(t + 3, [this] { FinishWrites(); });
      continue;
    }
    At(Soon(end - now_), [this] { Ask(); });
    At(Soon(end - now_), [this] {
      if (Chance(0.1)) Operate();
    });
    At(Soon(end - now_), [this] {
      if (Chance(0.01)) CopyJournal();
    });
    At(Soon(end - now_), [this] { InjectFaults(); });
  }
  while (!agenda_.empty() && agenda_.begin()->first.first <= end) {
    auto next = agenda_.extract(agenda_.begin());
    now_ = next.key().first;
    next.mapped()();
  }
  now_ = end;
}

// ---- the server ----

void Simulation::StartServer(bool accepts_older) {
  ++life_;
  reported_.clear();
  FlipABit();
  auto restored =
      ReadRecords(disk_.records, [this](const v1::StateSpec& spec) { return Place(spec); });
  if (!restored.ok()) return Violate(std::string(restored.status().message()));
  JournalPast& past = disk_.past;
  const std::string before = past.leadership;
  past.cluster_uid = "cluster";
  past.leadership = absl::StrCat("leader ", ++leaders_);
  ++past.sequence;
  if (!before.empty()) past.ends[before] = past.sequence;
  restored->past = past;
  restored->past.accepts_older = accepts_older;
  ControllerOptions options;
  options.finished_executions_max = 20;
  options.quiesce_timeout = std::chrono::seconds(3);
  options.execution_deadline = std::chrono::seconds(8);
  options.tick_interval = std::chrono::milliseconds(100);
  options.join_token_hashes = {HashSecret("token")};
  controller_ = std::make_unique<Controller>(
      options, [this] { return random_(); }, *std::move(restored));
  Perform(controller_->Start(
      {.steady = std::chrono::microseconds(now_), .wall = absl::FromUnixMicros(now_)}));
}

void Simulation::CrashServer(bool accepts_older) {
  controller_ = nullptr;
  ++life_;
  disk_busy_until_ = 0;
  paused_until_ = 0;
  deferred_.clear();
  calls_.clear();
  for (int i = 0; i < options_.workers; ++i) BreakStream(i, false);
  ++handled_;
  for (Worker& worker : workers_)
    worker.losses.OnReport(worker.losses.deaths(),
                           handled_);  // the next one takes every worker for absent
  At(Soon(2 * kSecond), [this, accepts_older] { StartServer(accepts_older); });
}

// Where the journal can go back: somebody makes a snapshot of its volume.
void Simulation::CopyJournal() {
  if (faults_.may_happen(Fault::kJournalRollback)) copies_.push_back(disk_);
}

// Of what was told, decided and freed since, the journal does not know.
void Simulation::RestoreCopy(size_t copy) {
  disk_ = copies_[copy];
  ++rolled_back_;
  for (Worker& worker : workers_) {
    worker.losses.GoBack();
    ++worker.drain_changes;
    worker.drained_at.reset();
  }
  generations_.clear();
  committed_by_.clear();
  committed_.clear();
  steps_.clear();
  ForgetDeviceIds();
}

void Simulation::ForgetDeviceIds() {
  std::fill(device_ids_.begin(), device_ids_.end(), -1);
  device_owners_.clear();
}

// The server finds its journal with a flipped bit in it. Where that is refused, somebody restores
// the files as they were, or the newest copy.
void Simulation::FlipABit() {
  constexpr int kMost = 2;  // it takes some time
  const bool may = disk_.past.sequence > 10 && flips_refused_ + flips_harmless_ < kMost;
  if (!may || !faults_.Draw(Fault::kBitFlip)) return;
  const FlippedJournal found = ReopenFlipped(disk_.records, disk_.past.sequence, random_());
  const bool restores_copy = Chance(0.3) && !copies_.empty();
  if (!found.wrong.empty()) Violate(found.wrong);
  ++(found.refused ? flips_refused_ : flips_harmless_);
  disk_.records = found.records;
  if (found.refused && restores_copy) RestoreCopy(copies_.size() - 1);
}

// Somebody reads the log, and starts the server with --accept-older-journal.
void Simulation::RestartIfBehind() {
  if (controller_ == nullptr || !controller_->gauges().journal_behind) return;
  if (!settling_ && !Chance(0.02)) return;
  ++found_out_;
  ForgetDeviceIds();  // what it assigned was never written
  CrashServer(true);
}

// Now, or when the server's process goes on, in order; never in another life of it.
void Simulation::WhenRunning(std::function<void()> what) {
  if (now_ >= paused_until_ && deferred_.empty()) return what();
  deferred_.push_back(std::move(what));
  At(std::max(now_, paused_until_), [this] { RunDeferred(); });
}

void Simulation::RunDeferred() {
  while (!deferred_.empty() && now_ >= paused_until_) {
    const std::function<void()> what = std::move(deferred_.front());
    deferred_.pop_front();
    what();
  }
}

void Simulation::Handle(Event event) {
  if (controller_ == nullptr) return;
  if (now_ < paused_until_) return WhenRunning([this, event] { Handle(event); });
  ++handled_;
  if (const StreamEnded* ended = std::get_if<StreamEnded>(&event))
    OnStreamEnd(streams_.at(ended->stream));
  Perform(controller_->Handle(std::move(event), {.steady = std::chrono::microseconds(now_),
                                                 .wall = absl::FromUnixMicros(now_)}));
}

void Simulation::Perform(Actions actions) {
  for (Action& action : actions) std::visit([this](auto& what) { Do(what); }, action);
}

void Simulation::Do(SendToWorker& action) {
  Stream& stream = streams_.at(action.stream);
  if (!stream.open) return Violate("sent to a closed stream");
  if (stream.foreign) return Violate("another cluster's worker is commanded");
  PlantInCommand(action.message);
  NotePlacement(stream.worker, action.message);
  commands_ = commands_ * 31 + std::hash<std::string>()(absl::StrCat(
                                   now_, " ", stream.worker, action.message.SerializeAsString()));
  if (action.message.has_welcome()) {
    stream.welcomed = true;
    for (const Report& report : std::exchange(stream.reports, {})) TakeHeld(stream.worker, report);
    workers_[stream.worker].losses.OnReport(stream.deaths, handled_);
  }
  if (const v1::Prepare& prepare = action.message.prepare(); action.message.has_prepare())
    moved_uids_[prepare.attempt().execution()] = prepare.target().state_uid();
  stream.last_down = std::max(stream.last_down + 1, Soon(50 * kMillisecond));
  At(stream.last_down, [this, id = action.stream, index = stream.worker,
                        message = std::move(action.message), sent = handled_] {
    Worker& worker = workers_[index];
    if (worker.alive && worker.stream == id) OnCommand(index, message, sent);
  });
}

void Simulation::Do(SendLater& action) {
  for (v1::AttachResponse& command : action.commands.make()) {
    ExpandColumns(command);
    SendToWorker send{.stream = action.stream, .message = std::move(command)};
    Do(send);
  }
}

void Simulation::Do(CloseStream& action) {
  Stream& stream = streams_.at(action.stream);
  stream.open = false;
  const bool superseded = GetErrorInfo(action.status).reason == "SUPERSEDED";
  if (!superseded) OnStreamEnd(stream);
  At(std::max(stream.last_down + 1, Soon(50 * kMillisecond)),
     [this, id = action.stream, index = stream.worker, superseded] {
       if (workers_[index].stream != id) return;
       workers_[index].stream = 0;
       if (superseded) workers_[index].model->Restart();  // it exits; its supervisor starts another
       if (workers_[index].alive) At(Soon(kSecond), [this, index] { Attach(index); });
     });
}

void Simulation::Do(Persist& action) {
  PlantInRecords(action.records);
  disk_busy_until_ = std::max(disk_busy_until_ + 1, Soon(20 * kMillisecond));
  At(disk_busy_until_, [this, life = life_, action] {
    if (life != life_) return;  // lost with the process
    for (const Record& record : action.records) {
      if (record.bytes)
        disk_.records[record.key] = *record.bytes;
      else
        disk_.records.erase(record.key);
    }
    disk_.past.sequence = action.sequence;
    if (faults_.Draw(Fault::kCrashAfterCommit)) return CrashServer();
    Handle(Persisted{action.sequence});
  });
}

void Simulation::Do(ReplyTo& action) {
  auto call = calls_.extract(action.call);
  if (!call.empty()) call.mapped()(action.reply);
}

void Simulation::Do(StartPlanning& action) {
  absl::StatusOr<PlannedExecution> move = MakeMove(action);
  At(Soon(200 * kMillisecond), [this, life = life_, id = action.id, move] {
    if (life == life_) Handle(Planned{.id = id, .move = move});
  });
}

// The state is where it is to go: it has no target, or an equal one.
absl::StatusOr<PlannedExecution> Simulation::MakeStay(const StartPlanning& question) {
  if (!question.options.lost_device_ids().empty()) {
    return absl::InvalidArgumentError("a part of it may be gone");
  }
  PlannedExecution move;
  move.target = question.source;
  move.moves_nothing = true;
  return move;
}

namespace {

// Each with all others.
std::vector<std::vector<int32_t>> AllExchange(size_t hosts) {
  std::vector<std::vector<int32_t>> exchanges(hosts);
  for (size_t host = 0; host < hosts; ++host) {
    for (size_t other = 0; other < hosts; ++other) {
      if (other != host) exchanges[host].push_back(static_cast<int32_t>(other));
    }
  }
  return exchanges;
}

}  // namespace

// The hosts that are left must hold every box.
absl::StatusOr<PlannedExecution> Simulation::MakeMove(const StartPlanning& question) {
  const auto& lost = question.options.lost_device_ids();
  const bool names = !question.targets->arrays().empty();
  if (!names || (lost.empty() && Chance(0.1))) return MakeStay(question);
  PlannedExecution move;
  move.lost_device_ids = {lost.begin(), lost.end()};
  if (std::ssize(move.lost_device_ids) == options_.workers) {
    return absl::DataLossError("no host is left");
  }
  move.target = Place(RandomSpec(move.lost_device_ids));
  move.plan = "plans/p";
  move.fingerprint = "f";
  move.summary.set_windows(static_cast<int32_t>(random_() % 12));
  for (const auto& placed : {question.source, move.target}) {
    for (const auto& [host, part] : placed->hosts) {
      const bool is_lost =
          std::find(lost.begin(), lost.end(), part.devices.device_ids[0]) != lost.end();
      if (is_lost) {
        move.spared_hosts.insert(host);
      } else {
        move.hosts[host] = part.devices;
      }
    }
  }
  const bool left = CoveredWithout(*PlaceBoxes(BoxesOf(question.source->spec)), move.spared_hosts);
  if (!left) return absl::DataLossError("no host that is left holds some box");
  if (question.id % 2 == 0) move.exchanges = AllExchange(move.hosts.size());
  return move;
}

void Simulation::Do(ExecutionEnded& action) { ++outcomes_[action.phase]; }

// ---- the workers ----

void Simulation::Attach(int index) {
  Worker& worker = workers_[index];
  if (!worker.alive || worker.stream != 0) return;
  if (controller_ == nullptr) return At(Soon(kSecond), [this, index] { Attach(index); });
  worker.stream = next_stream_++;
  streams_[worker.stream] = {.worker = index, .deaths = worker.losses.deaths()};
  v1::AttachRequest first;
  *first.mutable_register_() = worker.model->Registration();
  Send(index, std::move(first));
}

void Simulation::Send(int index, v1::AttachRequest message) {
  const StreamId id = workers_[index].stream;
  if (id == 0) return;  // said into a broken line
  Stream& stream = streams_.at(id);
  stream.last_up = std::max(stream.last_up + 1, Soon(50 * kMillisecond));
  At(stream.last_up, [this, life = life_, id, report = ReportBy(index, message), message] {
    if (life != life_) return;
    WhenRunning([this, id, report, message] {
      if (!streams_.at(id).open) return;
      OnHeld(id, report);
      Handle(StreamMessage{.stream = id, .message = message});
    });
  });
}

// The worker notices at once and comes back; the server notices soon, or by silence.
void Simulation::BreakStream(int index, bool tell_server) {
  const StreamId id = workers_[index].stream;
  if (id == 0) return;
  workers_[index].stream = 0;
  Stream& stream = streams_.at(id);
  if (tell_server) {
    At(std::max(stream.last_up + 1, Soon(kSecond)), [this, life = life_, id] {
      if (life != life_) return;
      WhenRunning([this, id] {
        if (!std::exchange(streams_.at(id).open, false)) return;
        Handle(StreamEnded{id});
      });
    });
  }
  if (workers_[index].alive) At(Soon(kSecond), [this, index] { Attach(index); });
}

void Simulation::Heartbeat() {
  for (int i = 0; i < options_.workers; ++i) {
    v1::AttachRequest beat;
    beat.mutable_heartbeat();
    if (workers_[i].alive && Chance(0.3)) Send(i, beat);
  }
}

// Draws each fault of a step of the world.
void Simulation::InjectFaults() {
  const int index = static_cast<int>(random_() % workers_.size());
  for (const FaultRow& row : kFaults) {
    if (row.occasion != Occasion::kStep || !CanHappen(row.fault, workers_[index])) continue;
    if (faults_.Draw(row.fault)) Inject(row.fault, index);
  }
}

bool Simulation::CanHappen(Fault fault, const Worker& worker) const {
  switch (fault) {
    case Fault::kServerCrash:
    case Fault::kForeignWorker:
      return controller_ != nullptr;
    case Fault::kJournalRollback:
      return controller_ != nullptr && !copies_.empty();
    case Fault::kStreamEnd:
    case Fault::kStreamSilence:
      return worker.stream != 0;
    case Fault::kWorkerDeath:
    case Fault::kMachineDeath:
      return worker.alive;
    default:
      return true;
  }
}

// One of a step of the world.
void Simulation::Inject(Fault fault, int index) {
  switch (fault) {
    case Fault::kServerCrash:
      return CrashServer();
    case Fault::kServerPause:
      paused_until_ = std::max(paused_until_, Soon(12 * kSecond));
      return;
    case Fault::kJournalRollback:
      RestoreCopy(random_() % copies_.size());
      return CrashServer();
    case Fault::kStreamEnd:
      return BreakStream(index, true);
    case Fault::kStreamSilence:
      return BreakStream(index, false);
    case Fault::kWorkerDeath:
      return Kill(index);
    case Fault::kMachineDeath:
      Kill(index);
      workers_[index].losses.Die(*workers_[index].model);
      return workers_[index].model->LoseBuffers();
    case Fault::kForeignWorker:
      return ForeignWorker(index);
    case Fault::kTornWrite:
      return Rewrite();
    default:
      REMESH_CHECK(false);
  }
}

// The worker dies, and has another life.
void Simulation::Kill(int index) {
  workers_[index].alive = false;
  BreakStream(index, Chance(0.7));
  At(Soon(8 * kSecond), [this, index] {
    workers_[index].alive = true;
    workers_[index].model->Restart();
    Attach(index);
  });
}

// A worker of another cluster dials this server, by a host name that is known here.
void Simulation::ForeignWorker(int index) {
  const StreamId id = next_stream_++;
  streams_[id] = {.worker = index, .foreign = true};
  v1::AttachRequest first;
  *first.mutable_register_() = workers_[index].model->Registration();
  first.mutable_register_()->mutable_position()->set_cluster_uid("another");
  Handle(StreamMessage{.stream = id, .message = first});
}

// The worker is away, whatever it died of. Before its welcome it was so anyway.
void Simulation::OnStreamEnd(const Stream& stream) {
  Losses& losses = workers_[stream.worker].losses;
  if (stream.welcomed) losses.OnReport(losses.deaths(), handled_);
}

}  // namespace remesh::server
