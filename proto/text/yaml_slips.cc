// SPDX-License-Identifier: Apache-2.0
#include "proto/text/yaml_slips.h"

#include <yaml-cpp/exceptions.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "proto/text/text_limits.h"

namespace remesh::proto {
namespace {

using Lines = std::vector<absl::string_view>;

constexpr char kQuoteHlo[] =
    "put quotes around the text of a sharding, as in hlo_text: '{devices=[4,1]<=[4]}'";
constexpr char kIndented[] = "wrong indentation: keys of one map must start in the same column";

constexpr char kTab[] = "YAML does not allow tabs for indentation: use spaces";

struct Slip {
  size_t line = 0;  // both count from 0
  size_t column = 0;
  std::string what;
};

// A tab in the space that a line begins with.
std::optional<size_t> TabIn(absl::string_view line) {
  const size_t text = line.find_first_not_of(" \t");
  const size_t tab = line.find('\t');
  if (tab == absl::string_view::npos || tab > text) return std::nullopt;
  return tab;
}

// HLO's text without quotes.
std::optional<size_t> HloIn(absl::string_view line) {
  const size_t at = line.find("{devices=");
  if (at == absl::string_view::npos || at == 0) return std::nullopt;
  const size_t before = line.find_last_not_of(' ', at - 1);
  const bool quoted =
      before != absl::string_view::npos && (line[before] == '"' || line[before] == '\'');
  return quoted ? std::nullopt : std::optional<size_t>(at);
}

// The colon of "name:value", without the space that makes it a key.
std::optional<size_t> TightColonIn(absl::string_view line) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || colon + 1 >= line.size()) return std::nullopt;
  const absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, colon));
  const bool word = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == ' ';
  });
  if (!word || absl::ascii_isspace(static_cast<unsigned char>(line[colon + 1])))
    return std::nullopt;
  return colon;
}

// Whether the text before a colon is a key: yaml-cpp takes it for the rest of the value before it.
bool IsKey(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_';
  });
}

// The slip that a line shows by itself.
std::optional<Slip> SlipOf(size_t number, absl::string_view line) {
  if (const auto tab = TabIn(line)) return Slip{number, *tab, kTab};
  if (const auto hlo = HloIn(line)) return Slip{number, *hlo, kQuoteHlo};
  if (const auto colon = TightColonIn(line))
    return Slip{number, *colon + 1, "put a space after the colon"};
  return std::nullopt;
}

// What yaml-cpp's message means to who writes; the message itself for others.
std::string InPlainWords(std::string_view message) {
  using namespace YAML::ErrorMsg;  // NOLINT
  const std::string text(message);
  if (text == END_OF_MAP || text == END_OF_SEQ) return kIndented;
  if (text == END_OF_MAP_FLOW) return "unclosed {: add a } before this point";
  if (text == END_OF_SEQ_FLOW) return "unclosed [: add a ] before this point";
  if (text == EOF_IN_SCALAR) return "a quote is not closed";
  if (text == MAP_KEY || text == MAP_VALUE)
    return "put quotes around a value that has a colon and a space in it";
  if (text == UNKNOWN_TOKEN) return "put quotes around a value that begins with @, ` or %";
  if (text == UNKNOWN_ANCHOR)
    return "an alias of an anchor that is not defined; put quotes around a value that begins with "
           "*";
  return text;
}

}  // namespace

absl::Status ExplainYamlSlip(std::string_view yaml, YamlMark mark, std::string_view message) {
  const Lines lines = absl::StrSplit(absl::string_view(yaml.data(), yaml.size()), '\n');
  const size_t last = std::min(mark.line, lines.size() - 1);
  // What is wrong with a line often shows only on the next one.
  for (const size_t number : {last, last == 0 ? 0 : last - 1}) {
    if (const auto slip = SlipOf(number, lines[number]))
      return TextError(slip->line + 1, slip->column + 1, slip->what);
  }
  const absl::string_view line = lines[last];
  const bool of_map = message == YAML::ErrorMsg::MAP_VALUE || message == YAML::ErrorMsg::MAP_KEY;
  if (of_map && mark.line == last && IsKey(line.substr(0, std::min(mark.column, line.size())))) {
    return TextError(mark.line + 1, line.find_first_not_of(" -") + 1, kIndented);
  }
  return TextError(mark.line + 1, mark.column + 1, InPlainWords(message));
}

}  // namespace remesh::proto
