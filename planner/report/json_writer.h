// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace remesh::planner {

// Writes one JSON value and sets commas itself. The output may be placed inside an HTML script
// element: '<', '>' and '&' in strings are escaped, and bytes that are not UTF-8 become U+FFFD.
//
//   json.BeginObject().Key("bytes").Int(12).Key("hosts").BeginArray().String("a").EndArray()
//       .EndObject();
class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view text);
  JsonWriter& Int(int64_t value);
  JsonWriter& Double(double value);  // the shortest text that reads back equal; null unless finite
  JsonWriter& Short(double value);   // rounded to four digits, in few characters: "1234e6"
  JsonWriter& Bool(bool value);

  const std::string& text() const { return text_; }
  std::string Take() { return std::move(text_); }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void BeforeValue();
  void AppendQuoted(std::string_view text);

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace remesh::planner
