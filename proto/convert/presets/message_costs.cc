// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/presets/message_costs.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "base/text/transport_names.h"

namespace remesh::proto {

planner::MessageCosts DefaultMessageCosts(const v1::Register& registration) {
  const auto& addresses = registration.data_addresses();
  const auto is_tcp = [](const v1::DataAddress& address) {
    return absl::StartsWith(address.transport(), kTcpTransport);
  };
  const bool only_tcp =
      !addresses.empty() && std::all_of(addresses.begin(), addresses.end(), is_tcp);
  return only_tcp ? kTcpMessageCosts : planner::MessageCosts{};
}

}  // namespace remesh::proto
