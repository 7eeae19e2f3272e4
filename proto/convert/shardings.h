// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/map.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"
#include "proto/convert/device_lists.h"
#include "proto/convert/form.h"
#include "remesh/v1/sharding.pb.h"

namespace remesh::proto {

// The shardings of one message (or of two messages that share values) as placements. Parses each
// different form once and lays out each different (form, devices, shape) once, so that the cost
// depends on these and not on the number of arrays. Every step returns the budget's status once the
// budget is spent. Not thread-safe.
class Shardings {
 public:
  // `budget` must outlive it.
  explicit Shardings(planner::Budget& budget = planner::Budget::Unlimited()) : budget_(budget) {}

  using Named = google::protobuf::Map<std::string, v1::Sharding>;

  // Sets the shardings and lists that references name from here on. Checks every entry, used or
  // not, and returns all problems together. Fields: "shardings[key].hlo_text".
  absl::Status SetNamed(const Named& shardings, const DeviceLists::Named& lists);

  // The placement of an array of `shape`. Fields are relative to the sharding. With a reference
  // they start at "shardings[key]" and the caller's path, used_by(), is part of the expectation;
  // but a shape that does not suit is reported as a field of the caller's path. For an entry that
  // SetNamed() refused, returns what it said of it. REQUIRES: ValidateShape() passed.
  absl::StatusOr<planner::Placement> Resolve(const v1::Sharding& sharding,
                                             const planner::Shape& shape,
                                             absl::FunctionRef<std::string()> used_by);

 private:
  // A sharding without its shape.
  struct Entry {
    int32_t form = 0;  // index in forms_
    std::string form_name;
    planner::DeviceListPtr devices;
    planner::MemoryKind memory_kind = planner::MemoryKind::kDevice;
  };

  absl::Status AddNamed(const std::string& key, const v1::Sharding& sharding);
  absl::StatusOr<Entry> ToEntry(const v1::Sharding& sharding);
  absl::StatusOr<int32_t> InternForm(const v1::Sharding& sharding);
  absl::StatusOr<planner::DeviceListPtr> DevicesOf(const v1::Sharding& sharding, const Form& form);
  absl::StatusOr<planner::Placement> Place(const Entry& entry, const planner::Shape& shape);

  planner::Budget& budget_;
  DeviceLists lists_;
  absl::flat_hash_map<std::string, Entry> named_;
  absl::flat_hash_map<std::string, absl::Status> refused_;
  absl::flat_hash_map<std::string, int32_t> form_index_;  // by the form's bytes
  std::vector<Form> forms_;
  absl::flat_hash_map<std::tuple<int32_t, size_t, planner::Shape>, planner::LayoutPtr>
      layouts_;            // (form, number of devices, shape)
  int64_t intervals_ = 0;  // of all positions of all layouts
};

}  // namespace remesh::proto
