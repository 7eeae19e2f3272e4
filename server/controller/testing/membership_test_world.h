// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "server/controller/membership/commands.h"
#include "server/controller/membership/membership.h"

namespace remesh::server {

// The machines up to membership, and access to their actions.
class MembershipTestWorld : public testing::Test {
 protected:
  static v1::Register Registration(const std::string& host) {
    v1::Register registration;
    registration.set_host(host);
    registration.set_host_secret(std::string(31, '!') + host[0]);
    registration.set_process_nonce(std::string(16, '!'));
    registration.add_devices()->set_id(host[0]);
    registration.set_nics(1);
    registration.set_nic_bytes_per_second(1e9);
    registration.set_fabric_bytes_per_second(1e9);
    registration.set_supports_write_once(true);
    return registration;
  }
  static v1::StateManifest Manifest(const std::string& state, const std::string& uid,
                                    int64_t generation) {
    v1::StateManifest manifest;
    manifest.set_state(state);
    manifest.set_state_uid(uid);
    manifest.set_generation(generation);
    manifest.set_phase(v1::SHARD_PHASE_READY);
    manifest.set_sealed_shards(1);
    manifest.set_total_shards(1);
    return manifest;
  }

  // Attaches a worker in the same steps as the dispatcher; returns the facts.
  HostFacts Attach(const v1::Register& registration, bool vouched = false) {
    HostFacts facts;
    std::vector<Record> records;
    absl::StatusOr<Enrolment> enrolment =
        membership_.Enrol(registration, vouched, now_, out_, facts);
    EXPECT_TRUE(enrolment.ok()) << enrolment.status();
    const v1::Register accepted =
        membership_.Accept(registration, *std::move(enrolment), now_, records);
    facts.push_back(membership_.Attach(++last_stream_, accepted, now_, out_));
    return facts;
  }
  HostFacts Attach(const std::string& host) { return Attach(Registration(host)); }

  // The actions of this kind since the last Clear().
  template <typename What>
  std::vector<What> Did() {
    std::vector<What> did;
    for (const Action& action : out_.actions()) {
      if (const What* what = std::get_if<What>(&action)) did.push_back(*what);
    }
    return did;
  }
  int Sent(StreamId stream, v1::AttachResponse::CommandCase kind) {
    int count = 0;
    for (const SendToWorker& send : Did<SendToWorker>()) {
      count += send.stream == stream && send.message.command_case() == kind;
    }
    for (const SendLater& later : Did<SendLater>()) {
      if (later.stream != stream) continue;
      for (const v1::AttachResponse& command : later.commands.make()) {
        count += command.command_case() == kind;
      }
    }
    return count;
  }
  void Clear() { out_ = Outbox(); }

  ControllerOptions options_;
  Moment now_{.steady = std::chrono::seconds(1), .wall = absl::UnixEpoch()};
  uint64_t last_random_ = 0;
  RandomBits random_ = [this] { return ++last_random_; };
  JournalQueue journal_{0};
  Leadership leadership_{{}, 0, {}, journal_};
  Membership membership_{options_, leadership_};
  Commands commands_{options_, leadership_, membership_.workers()};
  Outbox out_;
  StreamId last_stream_ = 0;
};

}  // namespace remesh::server
