// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace remesh::server {

// A random UUID (RFC 4122, version 4) of 122 of these bits, in lower case.
std::string MakeUid(uint64_t high, uint64_t low);

}  // namespace remesh::server
