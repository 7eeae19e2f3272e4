// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "remesh/v1/sharding.pb.h"

namespace remesh::client {

// Whether the text of a sharding is Shardy's ("#sdy.sharding<...", "sdy.mesh ...") rather than
// HLO's.
bool IsShardyText(std::string_view text);

// The message for a text of either kind.
v1::Sharding ShardingOfText(const std::string& text);

// "4,5" -> 4, 5; "" is none. INVALID_ARGUMENT naming `field`.
absl::StatusOr<std::vector<int64_t>> ParseIntegers(const std::string& field,
                                                   const std::string& text);

// "7,3,5", "0-15" or both, in order. INVALID_ARGUMENT (field "devices").
absl::StatusOr<v1::DeviceList> ParseDevices(const std::string& text);

}  // namespace remesh::client
