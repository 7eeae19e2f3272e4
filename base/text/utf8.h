// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace remesh {

// Whether text (whole UTF-8 characters) may be cut before byte `at`: later bytes are 10xxxxxx.
inline bool BeginsCharacter(std::string_view text, size_t at) {
  return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

}  // namespace remesh
