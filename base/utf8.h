// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace remesh {

// Whether a text of whole characters may be cut before byte `at`: UTF-8's later bytes are 10xxxxxx.
inline bool BeginsCharacter(std::string_view text, size_t at) {
  return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

}  // namespace remesh
