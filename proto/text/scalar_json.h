// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/status/statusor.h"

namespace remesh::proto {

// A scalar of a text in JSON.
struct Scalar {
  std::string text;  // without quotes
  std::string json;
  bool is_string = false;
};

// The JSON of a string. Bytes that are no UTF-8 become U+FFFD.
std::string Quoted(const std::string& text);

// The JSON by which protobuf's parser takes the scalar as a value of `field`: numbers without their
// unit (base/text/units.h), whole numbers without fraction and exponent, and names of enums as they
// are declared. Values of messages stay as they are. INVALID_ARGUMENT, without a field, says what
// the value must be.
absl::StatusOr<std::string> ReadScalar(const google::protobuf::FieldDescriptor& field,
                                       const Scalar& scalar);

}  // namespace remesh::proto
