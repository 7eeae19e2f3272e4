// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace remesh::proto {

// The field called `name`, in either spelling of protobuf's JSON, or null.
const google::protobuf::FieldDescriptor* FindField(const google::protobuf::Descriptor& type,
                                                   const std::string& name);

// What to say of a field that `type` does not have: the nearest one, and all that exist.
std::string UnknownFieldText(const google::protobuf::Descriptor& type, const std::string& name);

}  // namespace remesh::proto
