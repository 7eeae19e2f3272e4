// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace remesh::planner {

// What messages cost beside their bytes: an assumption about the transport, never measured at run
// time. The defaults are those of NCCL.
struct MessageCosts {
  double nic_message_seconds = 2e-6;  // of a NIC for each message, in its direction
  double fabric_message_seconds = 0;  // of a device's fabric for each copy, in its direction
  double post_seconds = 1e-6;         // of a thread for each send or receive across hosts
  int32_t posting_threads = 1;        // of the host

  friend bool operator==(const MessageCosts&, const MessageCosts&) = default;
};

// One machine: an NVLink (or shared-memory) domain with `nics` equal network cards, full duplex.
// Device i of n uses NIC floor(i * nics / n).
struct Host {
  std::string name;
  std::vector<int64_t> device_ids;  // the caller's numbering; position = local device of the worker
                                    // registered as `name`
  double nic_bytes_per_second = 0;  // of one NIC, in each direction
  int32_t nics = 1;
  double fabric_bytes_per_second = 0;  // of one device inside the host, in each direction
  std::string parent;                  // name of a Domain, or "" for the root
  MessageCosts message_costs = {};
  bool capacities_assumed = false;  // for reports alone: canonical requests do not have it

  friend bool operator==(const Host&, const Host&) = default;
};

// A domain above the hosts (rack, pod ...) with the capacity of its uplink.
struct Domain {
  std::string name;
  std::string parent;  // "" for the root
  double egress_bytes_per_second = 0;
  double ingress_bytes_per_second = 0;

  friend bool operator==(const Domain&, const Domain&) = default;
};

struct Topology {
  std::vector<Host> hosts;
  std::vector<Domain> domains;

  friend bool operator==(const Topology&, const Topology&) = default;
};

// The planner computes with integers: a larger capacity counts as kCapacityMax, and the NICs of all
// hosts together must not exceed kCapacitySumMax. In bytes per second.
inline constexpr double kCapacityMax = 70368744177664.0;          // 2^46
inline constexpr double kCapacitySumMax = 1152921504606846976.0;  // 2^60

// Far above what any transport takes.
inline constexpr double kMessageSecondsMax = 1;
inline constexpr int32_t kPostingThreadsMax = 4096;

// INVALID_ARGUMENT unless costs are within the limits above. Fields: "post_seconds" ...
absl::Status ValidateMessageCosts(const MessageCosts& costs);

// The capacity of a host's NICs together, at most 2 * kCapacitySumMax. Counts a NIC only when a
// device uses it. An integer, so that a sum is the same in any order.
int64_t NicCapacity(const Host& host);

// INVALID_ARGUMENT unless there is a host; host names and domain names are unique and not empty;
// device ids are unique and >= 0; every host has a device and nics >= 1; capacities are finite and
// > 0, and within kCapacitySumMax together; costs of messages are as ValidateMessageCosts() asks;
// parents exist and form no cycle. Fields: "hosts[i].nics" ...
absl::Status ValidateTopology(const Topology& topology);

}  // namespace remesh::planner
