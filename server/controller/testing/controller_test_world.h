// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "server/controller/controller.h"

namespace remesh::server {

// A controller whose journal is a map. Transactions wait while `disk_stops_`.
class ControllerTestWorld : public testing::Test {
 protected:
  using Command = v1::AttachResponse;
  static constexpr char kState[] = "jobs/j/states/s";

  ControllerTestWorld() { StartServer(); }

  // Starts another life of the server on what is on disk.
  void StartServer() {
    pending_.clear();
    auto restored = ReadRecords(disk_, [](const v1::StateSpec& spec) { return Place(spec); });
    ASSERT_TRUE(restored.ok()) << restored.status();
    restored->past = past_ = NextLeadership(past_, "leader " + std::to_string(++leaders_));
    controller_ = std::make_unique<Controller>(
        options_, [this] { return ++random_; }, *std::move(restored));
    Take(controller_->Start(now_));
  }

  // What a journal reports when a new leadership begins on it after `before`.
  static JournalPast NextLeadership(const JournalPast& before, const std::string& leadership) {
    JournalPast past = before;
    past.cluster_uid = "cluster";
    past.journal_uid = "journal";
    past.leadership = leadership;
    past.sequence = before.sequence + 1;
    if (!before.leadership.empty()) past.ends[before.leadership] = past.sequence;
    return past;
  }

  // One shard on each host of the topology.
  static std::shared_ptr<const PlacedState> Place(const v1::StateSpec& spec) {
    auto placed = std::make_shared<PlacedState>();
    placed->spec = spec;
    for (const v1::Host& host : spec.topology().hosts()) {
      HostPart& part = placed->hosts[host.name()];
      part.shards.emplace_back();
      part.devices = {.device_ids = {0}, .local_devices = {0}};
      ++placed->total_shards;
    }
    return placed;
  }
  static v1::StateSpec SpecOn(const std::vector<std::string>& hosts) {
    v1::StateSpec spec;
    for (const std::string& host : hosts) spec.mutable_topology()->add_hosts()->set_name(host);
    return spec;
  }

  void Handle(Event event) { Take(controller_->Handle(std::move(event), now_)); }

  void Deliver(StreamId stream, Command command) {
    if (command.has_position()) positions_[hosts_[stream]] = command.position();
    sent_[stream].push_back(std::move(command));
  }

  void Take(Actions actions) {
    for (Action& action : actions) {
      if (Persist* persist = std::get_if<Persist>(&action)) {
        for (const Record& record : persist->records) {
          persisted_bytes_ += record.key.size() + record.bytes.value_or("").size();
        }
        pending_.push_back(std::move(*persist));
      } else if (SendToWorker* send = std::get_if<SendToWorker>(&action)) {
        Deliver(send->stream, std::move(send->message));
      } else if (SendLater* later = std::get_if<SendLater>(&action)) {
        for (Command& command : later->commands.make()) {
          Deliver(later->stream, std::move(command));
        }
      } else if (CloseStream* close = std::get_if<CloseStream>(&action)) {
        closed_[close->stream] = close->status;
      } else if (ReplyTo* reply = std::get_if<ReplyTo>(&action)) {
        replies_.insert_or_assign(reply->call, std::move(reply->reply));
      } else if (Note* note = std::get_if<Note>(&action)) {
        if (note->warning) warnings_.push_back(note->line);
      } else if (StartPlanning* planning = std::get_if<StartPlanning>(&action)) {
        plannings_.push_back(planning->id);
      }
    }
    if (!disk_stops_) Write();
  }

  void Write() {
    while (!pending_.empty()) {
      const Persist persist = std::move(pending_.front());
      pending_.erase(pending_.begin());
      for (const Record& record : persist.records) {
        if (record.bytes)
          disk_[record.key] = *record.bytes;
        else
          disk_.erase(record.key);
      }
      past_.sequence = persist.sequence;
      Handle(Persisted{persist.sequence});
    }
  }

  static v1::StateManifest Manifest(const std::string& uid, int64_t generation,
                                    const std::string& state = kState) {
    v1::StateManifest manifest;
    manifest.set_state(state);
    manifest.set_state_uid(uid);
    manifest.set_generation(generation);
    manifest.set_phase(v1::SHARD_PHASE_READY);
    manifest.set_sealed_shards(1);
    manifest.set_total_shards(1);
    return manifest;
  }

  // The registration of a host, with its own secret and the position that it was last told.
  v1::Register Identity(const std::string& host) {
    v1::Register registration;
    registration.set_host(host);
    registration.set_host_secret(std::string(31, '!') + host[0]);
    registration.set_process_nonce(std::string(15, '!') + static_cast<char>('A' + ++nonces_ % 26));
    registration.add_devices()->set_id(host[0]);
    registration.set_nics(1);
    registration.set_nic_bytes_per_second(1e9);
    registration.set_fabric_bytes_per_second(1e9);
    registration.set_supports_write_once(true);
    *registration.mutable_position() = positions_[host];
    return registration;
  }
  static v1::Register WithOtherSecret(v1::Register registration) {
    registration.set_host_secret(std::string(32, 'x'));
    return registration;
  }
  // Returns the stream.
  StreamId Attach(const v1::Register& registration, bool vouched = false) {
    const StreamId stream = ++last_stream_;
    hosts_[stream] = registration.host();
    v1::AttachRequest first;
    *first.mutable_register_() = registration;
    Handle(StreamMessage{.stream = stream, .message = first, .vouched = vouched});
    return stream;
  }
  StreamId Attach(const std::string& host, const std::vector<v1::StateManifest>& manifests = {},
                  uint64_t highest_epoch = 0) {
    v1::Register registration = Identity(host);
    registration.set_highest_epoch(highest_epoch);
    *registration.mutable_manifests() = {manifests.begin(), manifests.end()};
    return Attach(registration);
  }
  std::string Refused(StreamId stream) {
    return closed_.contains(stream) ? GetErrorInfo(closed_[stream]).reason : "";
  }
  void Send(StreamId stream, const v1::AttachRequest& message) {
    Handle(StreamMessage{.stream = stream, .message = message});
  }

  CallId Ask(Request request) {
    Handle(Call{.id = ++last_call_, .request = std::move(request)});
    return last_call_;
  }
  v1::State Create(const std::vector<std::string>& hosts) {
    CreateState create{.request = {}, .placed = Place(SpecOn(hosts))};
    create.request.mutable_state()->set_name(kState);
    const auto& reply = replies_.at(Ask(std::move(create)));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? std::get<v1::State>(*reply) : v1::State();
  }
  void Delete() {
    v1::DeleteStateRequest request;
    request.set_name(kState);
    EXPECT_TRUE(replies_.at(Ask(request)).ok());
  }
  v1::State Get() {
    v1::GetStateRequest request;
    request.set_name(kState);
    return std::get<v1::State>(*replies_.at(Ask(request)));
  }
  void Seal(StreamId stream, const v1::StateManifest& manifest) {
    v1::AttachRequest message;
    *message.mutable_manifest_changed()->mutable_manifest() = manifest;
    Send(stream, message);
  }

  // The uids that the stream was told to forget.
  std::vector<std::string> Forgotten(StreamId stream) {
    std::vector<std::string> uids;
    for (const Command& command : sent_[stream]) {
      if (command.has_forget_state()) uids.push_back(command.forget_state().state_uid());
    }
    return uids;
  }
  int Count(StreamId stream, Command::CommandCase kind) {
    int count = 0;
    for (const Command& command : sent_[stream]) count += command.command_case() == kind;
    return count;
  }

  // What the list of workers says that the host owes.
  std::vector<v1::OwedShards> OwedBy(const std::string& host) {
    const auto workers =
        std::get<v1::ListWorkersResponse>(*replies_.at(Ask(v1::ListWorkersRequest())));
    for (const v1::Worker& worker : workers.workers()) {
      if (worker.name() == "workers/" + host) return {worker.owed().begin(), worker.owed().end()};
    }
    return {};
  }

  ControllerOptions options_;
  JournalPast past_;  // as the journal has it now
  int leaders_ = 0, nonces_ = 0;
  std::map<StreamId, std::string> hosts_;
  std::map<std::string, v1::JournalPosition> positions_;  // by host: what it was told last
  std::vector<std::string> warnings_;
  Moment now_{.steady = std::chrono::seconds(1), .wall = absl::UnixEpoch()};
  std::unique_ptr<Controller> controller_;
  std::map<std::string, std::string> disk_;
  size_t persisted_bytes_ = 0;  // keys and values of all records
  bool disk_stops_ = false;
  std::vector<Persist> pending_;
  std::map<StreamId, std::vector<Command>> sent_;
  std::map<StreamId, absl::Status> closed_;
  std::map<CallId, absl::StatusOr<Reply>> replies_;
  std::vector<uint64_t> plannings_;
  StreamId last_stream_ = 0;
  CallId last_call_ = 0;
  uint64_t random_ = 0;
};

}  // namespace remesh::server
