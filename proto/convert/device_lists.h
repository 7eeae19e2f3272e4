// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/map.h>

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "planner/values/request.h"
#include "remesh/v1/sharding.pb.h"

namespace remesh::proto {

// Device lists of one message as values: each named list is converted once, equal lists share one
// value. Not thread-safe.
class DeviceLists {
 public:
  using Named = google::protobuf::Map<std::string, v1::DeviceList>;

  // What references mean from here on. Converts every entry, so that one which nobody uses is
  // checked too. Fields: "device_lists[key].range.count".
  absl::Status SetNamed(const Named& lists);

  // A list or a reference to a named one. Fields: "ids[2]", "range.start", "ref".
  absl::StatusOr<planner::DeviceListPtr> Resolve(const v1::DeviceList& list);

  // The shared value equal to `ids`. INVALID_ARGUMENT without a field when all lists together are
  // too long.
  absl::StatusOr<planner::DeviceListPtr> Intern(planner::DeviceList ids);

 private:
  absl::flat_hash_map<std::string, planner::DeviceListPtr> named_;
  absl::flat_hash_map<planner::DeviceList, planner::DeviceListPtr> interned_;
  int64_t positions_ = 0;  // of all lists
};

}  // namespace remesh::proto
