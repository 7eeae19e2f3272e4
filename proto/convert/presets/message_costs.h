// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "planner/values/topology.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::proto {

// TCP between host memories. `scripts/bench messages` fits 10.5 us a message, by which posting it
// is hidden.
inline constexpr planner::MessageCosts kTcpMessageCosts = {
    .nic_message_seconds = 10e-6, .fabric_message_seconds = 0, .post_seconds = 3e-6};

// Nothing, in messages and settings: the costs are those of the preset or of the transport.
inline constexpr planner::MessageCosts kNoMessageCosts = {
    .nic_message_seconds = 0, .fabric_message_seconds = 0, .post_seconds = 0, .posting_threads = 0};

// What messages cost a worker unless it says so itself: those of TCP if it has nothing faster, else
// the defaults of MessageCosts, which are those of NCCL.
planner::MessageCosts DefaultMessageCosts(const v1::Register& registration);

// The functions below are for v1::Host, v1::TopologyPreset, v1::TopologyRules::HostRule and
// v1::Register. All of these have the four fields, and 0 where one is not given.

// Sets those costs that `message` gives.
template <typename Message>
void OverrideMessageCosts(const Message& message, planner::MessageCosts& costs) {
  if (message.nic_message_seconds() != 0) {
    costs.nic_message_seconds = message.nic_message_seconds();
  }
  if (message.fabric_message_seconds() != 0) {
    costs.fabric_message_seconds = message.fabric_message_seconds();
  }
  if (message.post_seconds() != 0) costs.post_seconds = message.post_seconds();
  if (message.posting_threads() != 0) costs.posting_threads = message.posting_threads();
}

template <typename Message>
void SetMessageCosts(const planner::MessageCosts& costs, Message& message) {
  message.set_nic_message_seconds(costs.nic_message_seconds);
  message.set_fabric_message_seconds(costs.fabric_message_seconds);
  message.set_post_seconds(costs.post_seconds);
  message.set_posting_threads(costs.posting_threads);
}

// INVALID_ARGUMENT, with the field's name, unless each cost is 0 or as planner::ValidateTopology()
// asks.
template <typename Message>
absl::Status CheckMessageCosts(const Message& message) {
  planner::MessageCosts costs;
  OverrideMessageCosts(message, costs);
  return planner::ValidateMessageCosts(costs);
}

}  // namespace remesh::proto
