// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace remesh::service {

// The settings of one binary. Each setting is one row, from which come its entry in the YAML file,
// its flag, its --help text and its part of the commented example file. When a row is added, its
// variable holds the default. The variable must outlive the table. Not thread-safe.
//
//   Settings settings;
//   settings.Section("Network");
//   settings.AddString("listen_address", &options.listen_address, "Where gRPC is served.");
//   settings.AddDuration("lost_after", &options.lost_after, "A worker silent for longer is lost.");
class Settings {
 public:
  // Starts a section: a heading for the rows that follow.
  void Section(std::string title);

  // Keys are snake_case; the flag of "lost_after" is --lost-after. Docs are plain sentences.
  void AddString(std::string key, std::string* value, std::string doc);
  // HOST:PORT, with IPv6 in brackets and a port of at least `port_min`; also "" if `optional`.
  struct AddressForm {
    int port_min = 0;
    bool optional = false;
  };
  void AddAddress(std::string key, std::string* value, std::string doc, AddressForm form);
  void AddStrings(std::string key, std::vector<std::string>* value,
                  std::string doc);  // flags: a,b,c
  void AddBool(std::string key, bool* value, std::string doc);
  void AddInt(std::string key, int64_t* value, std::string doc, int64_t min = 0,
              int64_t max = std::numeric_limits<int64_t>::max());
  void AddDouble(std::string key, double* value, std::string doc);  // finite, >= 0
  void AddObject(std::string key, std::string* json,
                 std::string doc);  // a map or list in YAML, kept as JSON; flags: JSON
  void AddDuration(std::string key, std::chrono::nanoseconds* value, std::string doc,
                   std::chrono::nanoseconds min = {});              // "5s", "300ms", "0"
  void AddBytes(std::string key, int64_t* value, std::string doc);  // "256MiB", "4096"
  // A setting of earlier versions. It is documented nowhere, has no effect, and may only have
  // `value`; see IgnoredKeys().
  void AddRetired(std::string key, std::string value);

  // Sets values from the text of a file. Checks everything before it sets anything.
  // INVALID_ARGUMENT names the key and value; for an unknown key (reason UNKNOWN_KEY) it names the
  // nearest known one.
  absl::Status Load(std::string_view yaml);
  // Returns every error that Load() could return; sets nothing.
  std::vector<absl::Status> Problems(std::string_view yaml);

  // Marks the settings that take effect while the process runs; the documented file marks them.
  void Live(std::initializer_list<std::string_view> keys);
  struct Value {
    std::string text;  // the current value, as YAML
    bool live = false;
  };
  std::map<std::string, Value> Values() const;

  // The retired settings that were given.
  std::vector<std::string> IgnoredKeys() const;

  // Adds one flag for each row. Values of flags are kept until ApplyFlags(), so that they override
  // a file. Between the two calls no row may be added and the table must not be moved.
  void AddFlags(CLI::App& app);
  absl::Status ApplyFlags() { return ApplyFlagsOf(*this); }
  // Applies the flags that were given to another table of the same rows.
  absl::Status ApplyFlagsOf(const Settings& other);

  // Sets one value from text. Errors name the key as field.
  absl::Status Set(const std::string& key, const std::string& value);

  // Returns a YAML file that documents every key with its default, commented out.
  std::string Example(std::string_view header) const;
  // As Example(), but values that differ from the default are not commented out, so that loading
  // the file sets them.
  std::string InForce(std::string_view header) const;

  const std::vector<std::string>& keys() const { return keys_; }

 private:
  struct Row {
    std::string section;  // the heading that starts here, or ""
    std::string key;
    std::string doc;
    std::string default_text;  // as YAML
    bool is_list = false;
    bool is_object = false;
    bool is_live = false;
    bool is_retired = false;
    bool is_given = false;  // known of retired rows only
    // Checks `values` (one, unless is_list); sets the variable if `commit`.
    std::function<absl::Status(const std::vector<std::string>& values, bool commit)> set;
    std::function<std::string()> text;  // returns the current value, as YAML
    std::vector<std::string> flag_values;
  };

  void Add(Row row);
  absl::Status SetRow(const std::string& key, const nlohmann::json& value, bool commit);
  Row* Find(const std::string& key);
  std::string Document(std::string_view header,
                       absl::FunctionRef<std::string(const Row&)> text_of) const;

  std::vector<Row> rows_;
  std::vector<std::string> keys_;
  std::string next_section_;
};

}  // namespace remesh::service
