// SPDX-License-Identifier: Apache-2.0
#include "proto/text/field_places.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/text/text_limits.h"

namespace remesh::proto {
namespace {

constexpr size_t kTextMax = size_t{4} << 20;  // a longer text takes too long to read again
constexpr int kDroppedMax = 2;                // names that a path may have before those of the text

// "arrays[3].source" -> arrays, 3, source. A key in brackets may have dots.
std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (at < path.size()) {
    const bool bracket = path[at] == '[';
    if (bracket || path[at] == '.') ++at;
    size_t end = at;
    const auto ends = [&] {
      if (!bracket) return path[end] == '.' || path[end] == '[';
      return path[end] == ']' &&
             (end + 1 == path.size() || path[end + 1] == '.' || path[end + 1] == '[');
    };
    while (end < path.size() && !ends()) ++end;
    parts.push_back(path.substr(at, end - at));
    at = bracket ? end + 1 : end;
  }
  return parts;
}

// Names in both spellings of protobuf's JSON are equal.
std::string Squeezed(const std::string& name) {
  std::string squeezed;
  for (const char c : name) {
    if (c != '_') squeezed += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return squeezed;
}

struct Wanted {
  std::vector<std::string> parts;
  size_t depth = 0;  // of the innermost part that was found
  TextPlace place;
};

// Notes the places while yaml-cpp reads.
class PlaceFinder : public YAML::EventHandler {
 public:
  explicit PlaceFinder(std::vector<Wanted>& wanted) : wanted_(wanted) {
    for (size_t i = 0; i < wanted.size(); ++i) matching_.push_back(i);
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Leaf(mark, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Leaf(mark, ""); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    Leaf(mark, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Open(mark, /*is_map=*/false);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Open(mark, /*is_map=*/true);
  }
  void OnSequenceEnd() override { levels_.pop_back(); }
  void OnMapEnd() override { levels_.pop_back(); }

 private:
  struct Level {
    bool is_map = false;
    bool key_next = false;
    int64_t index = 0;
    std::string key;
    YAML::Mark key_mark;
    std::vector<size_t> matching;  // the wanted paths that lead here
  };

  // The wanted paths that lead to the next child, whose place is noted.
  std::vector<size_t> Child(const YAML::Mark& mark) {
    if (levels_.empty()) return matching_;
    Level& level = levels_.back();
    const std::string part = level.is_map ? Squeezed(level.key) : absl::StrCat(level.index++);
    const YAML::Mark& place = level.is_map ? level.key_mark : mark;
    std::vector<size_t> matching;
    for (const size_t i : level.matching) {
      Wanted& wanted = wanted_[i];
      const size_t depth = levels_.size();
      if (wanted.parts.size() < depth || Squeezed(wanted.parts[depth - 1]) != part) continue;
      matching.push_back(i);
      if (wanted.depth >= depth) continue;
      wanted.depth = depth;
      wanted.place = {static_cast<size_t>(place.line) + 1, static_cast<size_t>(place.column) + 1};
    }
    return matching;
  }

  // Whether the node was the key of a map.
  bool TakeKey(const YAML::Mark& mark, const std::string& value) {
    if (levels_.empty() || !levels_.back().is_map) return false;
    Level& level = levels_.back();
    level.key_next = !level.key_next;
    if (level.key_next) return false;
    level.key = value;
    level.key_mark = mark;
    return true;
  }

  void Leaf(const YAML::Mark& mark, const std::string& value) {
    if (!TakeKey(mark, value)) Child(mark);
  }

  void Open(const YAML::Mark& mark, bool is_map) {
    if (levels_.size() >= kSpecDepthMax) throw YAML::Exception(mark, "nested too deep");
    const bool is_key = TakeKey(mark, "");
    std::vector<size_t> matching;
    if (!is_key) matching = Child(mark);
    levels_.push_back({.is_map = is_map, .key_next = is_map, .matching = std::move(matching)});
  }

  std::vector<Wanted>& wanted_;
  std::vector<size_t> matching_;
  std::vector<Level> levels_;
};

// Reads as far as the text can be read.
void Find(std::string_view text, std::vector<Wanted>& wanted) {
  std::istringstream in{std::string(text)};
  PlaceFinder finder(wanted);
  try {
    YAML::Parser(in).HandleNextDocument(finder);
  } catch (const YAML::Exception&) {
    return;  // what follows has no place
  }
}

}  // namespace

std::vector<TextPlace> FindPlaces(std::string_view text, const std::vector<std::string>& fields) {
  std::vector<TextPlace> places(fields.size());
  if (text.size() > kTextMax) return places;
  std::vector<Wanted> wanted;  // each field with 0, 1 and 2 names dropped
  for (const std::string& field : fields) {
    std::vector<std::string> parts = PartsOf(field);
    for (int dropped = 0; dropped <= kDroppedMax; ++dropped) {
      wanted.push_back({.parts = parts});
      if (!parts.empty()) parts.erase(parts.begin());
    }
  }
  Find(text, wanted);
  for (size_t i = 0; i < fields.size(); ++i) {
    for (int dropped = kDroppedMax; dropped >= 0; --dropped) {
      const Wanted& found = wanted[i * (kDroppedMax + 1) + dropped];
      if (found.depth > 0) places[i] = found.place;
    }
  }
  return places;
}

}  // namespace remesh::proto
