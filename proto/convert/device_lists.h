// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/map.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"
#include "remesh/v1/sharding.pb.h"

namespace remesh::proto {

// The device lists of one message as values. Converts each named list once; equal lists share one
// value. Not thread-safe.
class DeviceLists {
 public:
  using Named = google::protobuf::Map<std::string, v1::DeviceList>;

  // Sets the lists that references name from here on. Converts every entry, so that unused ones are
  // checked too. Fields: "device_lists[key].range.count". Returns the budget's status once `budget`
  // is spent.
  absl::Status SetNamed(const Named& lists, planner::Budget& budget = planner::Budget::Unlimited());

  // What is wrong with the entry called `key`, with its field; null: nothing, or there is no such
  // entry. Who refers to it has nothing to mend.
  const absl::Status* Refusal(const std::string& key) const;

  // The value of a list, or of the named list that it refers to. Fields: "ids[2]", "range.start";
  // none for a list that does not exist.
  absl::StatusOr<planner::DeviceListPtr> Resolve(const v1::DeviceList& list);

  // The shared value equal to `ids`. INVALID_ARGUMENT without a field when all lists together are
  // too long.
  absl::StatusOr<planner::DeviceListPtr> Intern(planner::DeviceList ids);

 private:
  absl::StatusOr<planner::DeviceListPtr> ResolveNamed(const v1::DeviceList& list);
  absl::StatusOr<planner::DeviceListPtr> NoSuchList(const std::string& ref) const;
  absl::StatusOr<planner::DeviceListPtr> ResolveRange(const v1::DeviceList::Range& range);

  absl::flat_hash_map<std::string, planner::DeviceListPtr> named_;
  absl::flat_hash_map<std::string, absl::Status> refused_;
  // By start and count, because comparing long lists takes time.
  absl::flat_hash_map<std::pair<int64_t, int64_t>, planner::DeviceListPtr> ranges_;
  absl::flat_hash_map<planner::DeviceList, planner::DeviceListPtr> interned_;
  int64_t positions_ = 0;  // of all lists
};

}  // namespace remesh::proto
