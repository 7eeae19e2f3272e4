// SPDX-License-Identifier: Apache-2.0
#include "base/text/visible.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text/utf8.h"

namespace remesh {
namespace {

struct Range {
  uint32_t first, last;
};

// Beyond ASCII: the controls C1, and Unicode's format characters that do more than they show.
constexpr Range kHidden[] = {
    {0x80, 0x9f},        // C1: a terminal may take them for escape sequences
    {0xad, 0xad},        // soft hyphen
    {0x61c, 0x61c},      // Arabic letter mark
    {0x180e, 0x180e},    // Mongolian vowel separator
    {0x200b, 0x200f},    // zero width; marks of direction
    {0x2028, 0x202e},    // separators of lines; embeddings and overrides of direction
    {0x2060, 0x206f},    // joiners; isolates of direction
    {0xfeff, 0xfeff},    // byte order mark
    {0xfff9, 0xfffb},    // annotations
    {0xe0000, 0xe0fff},  // tags
};

bool IsHidden(uint32_t character) {
  if (character < 0x80) {
    const bool control = character < 0x20 || character == 0x7f;
    return control && character != '\n' && character != '\t';
  }
  return std::any_of(std::begin(kHidden), std::end(kHidden), [&](const Range& range) {
    return range.first <= character && character <= range.last;
  });
}

// How many bytes a character with this first byte has; 0: no character begins so.
size_t BytesOf(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

struct Character {
  size_t bytes = 0;  // 0: the text does not begin with a character
  uint32_t value = 0;
};

// Neither surrogates nor spellings that are longer than need be are characters.
bool IsCharacter(const Character& read) {
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = 0xd800 <= read.value && read.value <= 0xdfff;
  return read.value >= kLeast[read.bytes] && read.value <= 0x10ffff && !surrogate;
}

Character FirstOf(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t bytes = BytesOf(first);
  if (bytes == 0 || bytes > text.size()) return {};
  if (bytes == 1) return {1, first};
  Character read{bytes, first & (0x7fu >> bytes)};
  for (size_t i = 1; i < bytes; ++i) {
    if (BeginsCharacter(text, i)) return {};
    read.value = read.value << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  }
  return IsCharacter(read) ? read : Character();
}

std::string Escaped(uint32_t character) {
  if (character < 0x80) return absl::StrFormat("\\x%02x", character);
  if (character < 0x10000) return absl::StrFormat("\\u%04x", character);
  return absl::StrFormat("\\U%08x", character);
}

}  // namespace

std::string Visible(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Character next = FirstOf(text);
    const size_t bytes = std::max<size_t>(next.bytes, 1);
    if (next.bytes == 0) {
      absl::StrAppendFormat(&shown, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (IsHidden(next.value)) {
      shown += Escaped(next.value);
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace remesh
