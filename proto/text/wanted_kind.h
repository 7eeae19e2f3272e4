// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace remesh::proto {

// What to write instead of a value of another kind than its field's: "must be ...".

// The names of the fields of `type`, with commas.
std::string NamesOf(const google::protobuf::Descriptor& type);

// For a repeated field. If `text`, the value that is given, looks like several numbers, the answer
// shows them as a list.
std::string WantsList(const google::protobuf::FieldDescriptor& field, const std::string& text);
// For a message where a scalar or a list is given.
std::string WantsMessage(const google::protobuf::FieldDescriptor& field);
// For a scalar where a list or a map is given.
std::string WantsScalar(const google::protobuf::FieldDescriptor& field);

}  // namespace remesh::proto
