// SPDX-License-Identifier: Apache-2.0
#include "proto/text/json_guard.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "proto/text/text_limits.h"

namespace remesh::proto {
namespace {

// Stops at the first problem. nlohmann's events carry no position, so the position is computed from
// the text read so far.
class Guard : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& problem() const { return problem_; }
  const absl::Status& syntax() const { return syntax_; }

  bool null() override {
    return levels_.empty() || levels_.back().is_object || Fail("null in an array");
  }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Open(true); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override {
    if (!levels_.empty() && !levels_.back().is_object) return Fail("an array in an array");
    return Open(false);
  }
  bool end_array() override { return Close(); }
  bool key(string_t& key) override {
    if (levels_.back().keys.insert(key).second) return true;
    return Fail(absl::StrCat("key \"", key.substr(0, 200), "\" is given twice in one object"));
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: what"
    const std::string text = e.what();
    unsigned long line = 1, column = 1;
    const size_t at = text.find("at line ");
    if (at != std::string::npos) {
      std::sscanf(text.c_str() + at, "at line %lu, column %lu", &line, &column);
    }
    const size_t colon = text.find(": ", at == std::string::npos ? 0 : at);
    syntax_ = TextError(
        line, column,
        absl::StrCat("a text that begins with { is read as JSON: put its keys in quotes, or "
                     "remove the outer { }, and it is read as YAML; ",
                     colon == std::string::npos ? text : text.substr(colon + 2)));
    return false;
  }

 private:
  struct Level {
    bool is_object;
    std::set<std::string> keys;
  };

  bool Open(bool is_object) {
    if (static_cast<int>(levels_.size()) >= kSpecDepthMax) {
      return Fail(absl::StrCat("nested deeper than ", kSpecDepthMax, " levels"));
    }
    levels_.push_back({is_object, {}});
    return true;
  }
  bool Close() {
    levels_.pop_back();
    return true;
  }
  bool Fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  std::vector<Level> levels_;
  std::string problem_;
  absl::Status syntax_;
};

// Counts the characters that the parser has read, for the position of a problem.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = std::max(*furthest_, ++at_);
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ != b.at_;
  }

 private:
  const char* at_;
  const char** furthest_;
};

// "device_lists" -> "deviceLists".
std::string LowerCamel(const std::string& name) {
  std::string camel;
  bool upper = false;
  for (const char c : name) {
    if (c != '_') camel += upper ? absl::ascii_toupper(static_cast<unsigned char>(c)) : c;
    upper = c == '_';
  }
  return camel;
}

// The member called `name` in either spelling, or null.
const nlohmann::ordered_json* Member(const nlohmann::ordered_json* object,
                                     const std::string& name) {
  if (object == nullptr || !object->is_object()) return nullptr;
  for (const std::string& spelling : {name, LowerCamel(name)}) {
    if (const auto found = object->find(spelling); found != object->end()) return &*found;
  }
  return nullptr;
}

}  // namespace

absl::Status CheckJson(std::string_view json) {
  if (json.size() > kSpecBytesMax) {
    return TextError(1, 1, absl::StrCat("more than ", kSpecBytesMax, " bytes"));
  }
  Guard guard;
  const char* furthest = json.data();
  const bool ok =
      nlohmann::json::sax_parse(CountingIterator(json.data(), &furthest),
                                CountingIterator(json.data() + json.size(), &furthest), &guard);
  if (ok) return absl::OkStatus();
  if (guard.problem().empty()) return guard.syntax();
  const std::string_view read = json.substr(0, furthest - json.data());
  const size_t line_start = read.rfind('\n') == std::string_view::npos ? 0 : read.rfind('\n') + 1;
  return TextError(std::count(read.begin(), read.end(), '\n') + 1,
                   std::max<size_t>(read.size() - line_start, 1), guard.problem());
}

std::string PathWithKeys(std::string_view json, std::string_view path) {
  const auto root = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  const nlohmann::ordered_json* at = &root;
  std::string out;
  bool after_map = false;
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(path.data(), path.size()), '.');
  for (const std::string& part : parts) {
    if (std::exchange(after_map, false) && part == "value") continue;
    const size_t bracket = std::min(part.find('['), part.size());
    const std::string name = part.substr(0, bracket);
    const size_t index =
        bracket < part.size() ? std::strtoull(part.c_str() + bracket + 1, nullptr, 10) : 0;
    at = Member(at, name);
    absl::StrAppend(&out, out.empty() ? "" : ".", name);
    if (bracket == part.size()) continue;
    if (at != nullptr && at->is_object() && index < at->size()) {
      const auto entry = std::next(at->begin(), static_cast<std::ptrdiff_t>(index));
      absl::StrAppend(&out, "[", entry.key(), "]");
      at = &entry.value();
      after_map = true;
    } else {
      out += part.substr(bracket);
      at = at != nullptr && at->is_array() && index < at->size() ? &(*at)[index] : nullptr;
    }
  }
  return out;
}

}  // namespace remesh::proto
