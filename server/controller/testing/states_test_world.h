// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/controller/states/states.h"
#include "server/controller/testing/membership_test_world.h"

namespace remesh::server {

// The machines up to states.
class StatesTestWorld : public MembershipTestWorld {
 protected:
  static constexpr char kState[] = "jobs/j/states/s";

  // One shard on the first device of each host.
  static std::shared_ptr<const PlacedState> PlaceOn(const std::vector<std::string>& hosts) {
    auto placed = std::make_shared<PlacedState>();
    for (const std::string& host : hosts) {
      HostPart& part = placed->hosts[host];
      part.shards.emplace_back();
      part.devices = {.device_ids = {host[0]}, .local_devices = {0}};
      ++placed->total_shards;
    }
    return placed;
  }
  static CreateState Asked(const std::vector<std::string>& hosts,
                           const std::string& request_id = "") {
    CreateState create{.request = {}, .placed = PlaceOn(hosts)};
    create.request.mutable_state()->set_name(kState);
    create.request.set_request_id(request_id);
    return create;
  }
  // Creates a state and returns its uid.
  std::string Create(const std::vector<std::string>& hosts) {
    const auto asked = states_.Create(1, Asked(hosts), now_, out_);
    EXPECT_TRUE(asked.has_value());
    if (!asked) return "";
    membership_.Keep(asked->hosts);
    states_.OnCreated(std::get<StateCreated>(asked->then), out_);
    return Find()->uid();
  }
  const StateEntry* Find() { return states_.registry().Find(kState); }
  // The answers to a call.
  std::vector<absl::StatusOr<Reply>> Replies(CallId call) {
    std::vector<absl::StatusOr<Reply>> replies;
    for (const ReplyTo& reply : Did<ReplyTo>()) {
      if (reply.call == call) replies.push_back(reply.reply);
    }
    return replies;
  }

  States states_{options_, random_, journal_, membership_, commands_};
};

}  // namespace remesh::server
