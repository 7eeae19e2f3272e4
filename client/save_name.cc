// SPDX-License-Identifier: Apache-2.0
#include "client/save_name.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace remesh::client {
namespace {

constexpr size_t kWorldDigits = 6;
constexpr size_t kNumberDigits = 8;
constexpr size_t kDigitsMax = 18;  // fits an int64_t

// A number as it is written: with zeros in front up to `width` digits, and none beyond.
std::optional<int64_t> ParseNumber(const std::string& text, size_t width) {
  if (text.size() < width || text.size() > kDigitsMax) return std::nullopt;
  if (text.size() > width && text[0] == '0') return std::nullopt;
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) return std::nullopt;
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

std::optional<int64_t> ParseWorld(const std::string& text) {
  const std::optional<int64_t> world = ParseNumber(text, kWorldDigits);
  return world == 0 ? std::nullopt : world;
}

std::vector<std::string> PartsOf(std::string_view state) {
  return absl::StrSplit(std::string(state), '.');
}

}  // namespace

std::optional<SaveName> ParseSaveName(std::string_view state) {
  const std::vector<std::string> parts = PartsOf(state);
  if (parts.size() != 3 || parts[0] != "save") return std::nullopt;
  const std::optional<int64_t> world = ParseWorld(parts[1]);
  const std::optional<int64_t> number = ParseNumber(parts[2], kNumberDigits);
  if (!world || !number) return std::nullopt;
  return SaveName{.world = *world, .number = *number};
}

std::optional<int64_t> ParseWorldName(std::string_view state) {
  const std::vector<std::string> parts = PartsOf(state);
  if (parts.size() != 2 || parts[0] != "world") return std::nullopt;
  return ParseWorld(parts[1]);
}

std::string_view JobOf(std::string_view name) {
  const size_t begin = name.find('/') + 1;
  return name.substr(begin, name.find('/', begin) - begin);
}

std::string_view LastPartOf(std::string_view name) { return name.substr(name.rfind('/') + 1); }

}  // namespace remesh::client
