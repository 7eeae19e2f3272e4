// SPDX-License-Identifier: Apache-2.0
#include "proto/text/yaml_to_json.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "proto/text/text_limits.h"
#include "proto/text/yaml_slips.h"

namespace remesh::proto {
namespace {

// Thrown to leave yaml-cpp's parser, which has no other way to stop; caught in YamlToJson().
struct Refused {
  absl::Status status;
};

// Writes JSON while the parser reads: an alias copies what its anchor wrote.
class JsonWriter : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) Refuse(mark, "a second document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (AtKey()) Refuse(mark, "a key is null");
    Scalar(mark, anchor, "null");
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    std::string quoted;
    try {
      quoted = nlohmann::json(value).dump();
    } catch (const nlohmann::json::exception&) {
      Refuse(mark, "a string that is not UTF-8");
    }
    Scalar(mark, anchor, quoted);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, anchor, /*is_map=*/false);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, anchor, /*is_map=*/true);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end() || !found->second.done)
      Refuse(mark, "an alias inside its own anchor");
    const Anchor& a = found->second;
    if (AtKey() && json_[a.begin] != '"') Refuse(mark, "a key that is not a string");
    if (static_cast<int>(levels_.size()) + a.height > kSpecDepthMax) RefuseDepth(mark);
    CountBytes(mark, a.end - a.begin);
    Put(mark, std::string(json_, a.begin, a.end - a.begin), a.nodes);
    for (Level& level : levels_) level.height = std::max(level.height, level.depth_here + a.height);
  }

  std::string TakeJson() && { return std::move(json_); }
  bool empty() const { return json_.empty(); }

 private:
  struct Anchor {
    bool done = false;
    size_t begin = 0, end = 0;  // in json_
    int64_t nodes = 1;
    int height = 0;  // levels of nesting in the value
  };
  struct Level {
    bool is_map = false;
    bool key_next = false;
    bool first = true;
    YAML::anchor_t anchor = 0;
    size_t begin = 0;
    int64_t nodes_before = 0;
    int height = 1;      // of what has been written in it so far, including itself
    int depth_here = 1;  // levels from this one down to the innermost open one
    std::set<std::string> keys;
  };

  [[noreturn]] static void Refuse(const YAML::Mark& mark, std::string_view what) {
    throw Refused{TextError(mark.line + 1, mark.column + 1, what)};
  }
  [[noreturn]] static void RefuseDepth(const YAML::Mark& mark) {
    Refuse(mark, absl::StrCat("nested deeper than ", kSpecDepthMax, " levels"));
  }

  bool AtKey() const {
    return !levels_.empty() && levels_.back().is_map && levels_.back().key_next;
  }

  void CountBytes(const YAML::Mark& mark, size_t more) const {
    if (more > kSpecBytesMax || json_.size() > kSpecBytesMax - more) {
      Refuse(mark, absl::StrCat("more than ", kSpecBytesMax, " bytes as JSON"));
    }
  }

  // Counts `nodes`, and writes the comma or colon that must precede a new child.
  void Begin(const YAML::Mark& mark, int64_t nodes) {
    nodes_ += nodes;
    if (nodes_ > kSpecNodesMax) Refuse(mark, absl::StrCat("more than ", kSpecNodesMax, " nodes"));
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (level.is_map && !level.key_next) {
      json_ += ':';
    } else if (!level.first) {
      json_ += ',';
    }
    level.first = false;
    if (level.is_map) level.key_next = !level.key_next;
  }

  // Writes a finished child.
  void Put(const YAML::Mark& mark, const std::string& json, int64_t nodes) {
    if (AtKey() && !levels_.back().keys.insert(json).second) {
      Refuse(mark, absl::StrCat("key ", json.substr(0, 200), " is given twice in one map"));
    }
    Begin(mark, nodes);
    json_ += json;
  }

  void Scalar(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& json) {
    CountBytes(mark, json.size());
    Put(mark, json, 1);
    if (anchor != YAML::NullAnchor)
      anchors_[anchor] = {true, json_.size() - json.size(), json_.size(), 1, 0};
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, bool is_map) {
    if (AtKey()) Refuse(mark, "a key that is not a string");
    if (static_cast<int>(levels_.size()) >= kSpecDepthMax) RefuseDepth(mark);
    Begin(mark, 1);
    for (Level& level : levels_) level.height = std::max(level.height, ++level.depth_here);
    if (anchor != YAML::NullAnchor) anchors_[anchor].done = false;
    levels_.push_back({.is_map = is_map,
                       .key_next = is_map,
                       .anchor = anchor,
                       .begin = json_.size(),
                       .nodes_before = nodes_ - 1});
    json_ += is_map ? '{' : '[';
  }

  void Close() {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    for (Level& outer : levels_) --outer.depth_here;
    json_ += level.is_map ? '}' : ']';
    if (level.anchor == YAML::NullAnchor) return;
    anchors_[level.anchor] = {true, level.begin, json_.size(), nodes_ - level.nodes_before,
                              level.height};
  }

  std::string json_;
  int64_t nodes_ = 0;
  int documents_ = 0;
  std::vector<Level> levels_;  // open maps and sequences, outermost first
  std::unordered_map<YAML::anchor_t, Anchor> anchors_;
};

}  // namespace

absl::StatusOr<std::string> YamlToJson(std::string_view yaml) {
  if (yaml.size() > kSpecBytesMax) {
    return TextError(1, 1, absl::StrCat("more than ", kSpecBytesMax, " bytes"));
  }
  std::istringstream in{std::string(yaml)};
  JsonWriter writer;
  try {
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(writer)) {
    }
  } catch (const Refused& refused) {
    return refused.status;
  } catch (const YAML::Exception& e) {
    return ExplainYamlSlip(
        yaml,
        {.line = static_cast<size_t>(e.mark.line), .column = static_cast<size_t>(e.mark.column)},
        e.msg);
  }
  if (writer.empty()) return TextError(1, 1, "an empty document");
  return std::move(writer).TakeJson();
}

}  // namespace remesh::proto
