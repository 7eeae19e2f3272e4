// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/request.h"

namespace remesh::planner {

// The part of a canonical topology that may carry a request's bytes, in integers. Only devices that
// a list of the request names carry, unless they are lost; a NIC counts only when such a device
// uses it.
struct Network {
  struct Nic {
    int32_t host = 0;
    std::vector<int32_t> devices;  // those that carry, rising
  };
  struct HostNode {
    int64_t nic_capacity = 0;     // of one NIC, bytes per second
    int64_t fabric_capacity = 0;  // of one device
    std::vector<int32_t> nics;
    int32_t first_device = 0;
    int32_t device_count = 0;  // devices are first_device .. first_device + device_count - 1
    int32_t parent = -1;       // index into domains, -1: the root
    // See MessageCosts; seconds of the host for each operation, all its threads together.
    double nic_message_seconds = 0;
    double fabric_message_seconds = 0;
    double operation_seconds = 0;

    int64_t capacity() const { return nic_capacity * static_cast<int64_t>(nics.size()); }
  };
  struct DomainNode {
    int32_t parent = -1;
    int64_t egress = 0;
    int64_t ingress = 0;
  };

  std::vector<int32_t> host_of;  // device -> host
  std::vector<int32_t> nic_of;   // device -> nic, -1 where the device does not carry
  std::vector<bool> named;       // device -> whether a list names it
  std::vector<bool> lost;
  std::vector<Nic> nics;
  std::vector<HostNode> hosts;
  std::vector<DomainNode> domains;  // parents before children

  int32_t device_count() const { return static_cast<int32_t>(host_of.size()); }
  int32_t host_count() const { return static_cast<int32_t>(hosts.size()); }
};

// Capacities are rounded to whole bytes per second, at least 1 and at most kCapacityMax.
Network MakeNetwork(const ReshardRequest& canonical);

}  // namespace remesh::planner
