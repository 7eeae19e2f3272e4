// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>

namespace remesh::server {

// 32 hex digits over a message's fields. Equal messages have equal digests within one build.
std::string Digest(const google::protobuf::MessageLite& message);

}  // namespace remesh::server
