// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>

#include "absl/strings/match.h"

namespace remesh::proto {

// What kind of value a field of a spec has.

// Messages that a text may stand for.
inline constexpr char kSharding[] = "remesh.v1.Sharding";
inline constexpr char kDeviceList[] = "remesh.v1.DeviceList";
inline constexpr char kDTensor[] = "remesh.v1.DTensorSharding";
inline constexpr char kPlacement[] = "remesh.v1.Placement";

inline bool IsMessage(const google::protobuf::FieldDescriptor& field) {
  return field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE;
}

inline bool IsOf(const google::protobuf::FieldDescriptor& field, const char* message) {
  return IsMessage(field) && field.message_type()->full_name() == message;
}

// protobuf's own types, whose JSON is a string.
inline bool IsWellKnown(const google::protobuf::FieldDescriptor& field) {
  return IsMessage(field) && absl::StartsWith(field.message_type()->full_name(), "google.protobuf");
}

}  // namespace remesh::proto
