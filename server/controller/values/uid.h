// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace remesh::server {

// A random UUID (RFC 4122, version 4) of 122 of these bits, in lower case.
std::string MakeUid(uint64_t high, uint64_t low);

// Whether the text has the form of a uid, as 123e4567-e89b-42d3-a456-426614174000.
bool IsUid(std::string_view text);

}  // namespace remesh::server
