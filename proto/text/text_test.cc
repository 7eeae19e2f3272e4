// SPDX-License-Identifier: Apache-2.0
#include "proto/text/text.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/problems.h"
#include "proto/text/yaml_to_json.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/state.pb.h"
#include "remesh/v1/topology.pb.h"
#include "remesh/v1/unit.pb.h"

namespace remesh::proto {
namespace {

absl::Status Parse(const std::string& text) {
  v1::PlanSpec spec;
  return ParseText(text, spec);
}

std::string Message(const std::string& text) { return std::string(Parse(text).message()); }

std::string Field(const std::string& text) { return GetErrorInfo(Parse(text)).metadata["field"]; }

TEST(TextTest, JsonTakesBothSpellings) {
  v1::PlanSpec spec;
  ASSERT_TRUE(ParseText(R"({"deviceLists":{"a":{"range":{"start":4,"count":"2"}}}})", spec).ok());
  v1::PlanSpec again;
  ASSERT_TRUE(
      ParseText(R"( {"device_lists":{"a":{"range":{"start":"4","count":2}}}})", again).ok());
  EXPECT_EQ(spec.device_lists().at("a").range().start(), 4);
  EXPECT_EQ(again.SerializeAsString(), spec.SerializeAsString());
}

TEST(TextTest, YamlIsTheSameMessage) {
  v1::PlanSpec json, yaml;
  ASSERT_TRUE(
      ParseText(R"({"shardings":{"r":{"hlo_text":"{devices=[4,1]<=[4]}","devices":{"ids":[3,1]}}},
                            "arrays":[{"name":"1.0","shape":[8,8],"source":{"ref":"r"}}],
                            "options":{"donate":true,"window_bytes":1000}})",
                json)
          .ok());
  const absl::Status status = ParseText(R"(# a comment
shardings:
  r: &r
    hlo_text: "{devices=[4,1]<=[4]}"
    devices: {ids: [3, 1]}
arrays:
- name: 1.0
  shape: [8, 8]
  source: {ref: r}
options:
  donate: true
  window_bytes: 1000
)",
                                        yaml);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(yaml.DebugString(), json.DebugString());
}

TEST(TextTest, ZeroBytesOfOpShardingSetTheForm) {
  v1::PlanSpec spec;
  ASSERT_TRUE(ParseText("shardings: {r: {op_sharding: ''}}", spec).ok());
  EXPECT_EQ(spec.shardings().at("r").form_case(), v1::Sharding::kOpSharding);
}

TEST(TextTest, ErrorsNameKeyAndField) {
  EXPECT_EQ(
      Message(R"({"shardings":{"a":{},"rows":{"hlo_txt":"x"}}})"),
      "shardings[rows].hlo_txt: value \"hlo_txt\" is not a known field; did you mean "
      "\"hlo_text\"? Fields here: op_sharding, hlo_text, named, dtensor, boxes, sdy_text, ref, "
      "devices, memory_kind");
  EXPECT_EQ(Message(R"({"arrays":[{"shape":["x"]}]})"),
            "arrays[0].shape[0]: value \"x\" must be a whole number");
  EXPECT_EQ(Field(R"({"shardings":{"rows":{"devices":{"ids":[1,"z"]}}}})"),
            "shardings[rows].devices.ids[1]");
  EXPECT_EQ(Field(R"({"deviceLists":{"x":{"ids":[]},"y":{"ids":[1.5]}}})"),
            "device_lists[y].ids[0]");
  EXPECT_EQ(Field(R"({"bogus":1})"), "bogus");
  EXPECT_EQ(Field("options: {strategy: FOO}"), "options.strategy");
  EXPECT_EQ(Field("shardings: {a: {hlo_text: x, sdy_text: y}}"), "shardings[a]");
}

// All that is wrong, as "field: what" in order.
std::vector<std::string> AllProblems(const std::string& text) {
  const absl::Status status = Parse(text);
  std::vector<std::string> all = {std::string(status.message())};
  for (const FurtherProblem& problem : FurtherProblems(status))
    all.push_back(absl::StrCat(problem.field, ": ", problem.description));
  return all;
}

// Regression: only the first of several mistakes was named.
TEST(TextTest, IndependentMistakesAreNamedTogether) {
  const std::vector<std::string> want = {
      "arrays[0].dtype: value \"dtype\" is not a known field; did you mean \"element_type\"? "
      "Fields "
      "here: name, shape, element_type, source, target",
      "arrays[0].shape: value \"8,8\" must be a list, as in shape: [8, 8]",
      "arrays[1].shape[1]: value \"x\" must be a whole number",
      "arrays[1].source.devices.range.end: value \"end\" is not a known field; use "
      "\"count\": devices 0 to 7 are {start: 0, count: 8}. Fields here: start, count",
      "options.donate: value \"yes\" must be true or false",
      "options.strategy: value \"FAST\" must be one of OPTIMAL, P2P, GATHER",
  };
  EXPECT_EQ(AllProblems(R"(arrays:
- {name: w, dtype: bf16, shape: "8,8"}
- {name: v, shape: [8, x], source: {devices: {range: {start: 0, end: 7}}}}
options: {donate: yes, strategy: FAST}
)"),
            want);
}

TEST(TextTest, NumbersMayHaveUnitsWhereTheirFieldsHaveOne) {
  v1::PlanSpec spec;
  const absl::Status status = ParseText(R"(topology:
  hosts:
  - {name: a, nic_bytes_per_second: 100Gbit/s, fabric_bytes_per_second: 900 GB/s, post_seconds: 2us}
options: {window_bytes: 64MiB, memory_limit_bytes: 1e9}
)",
                                        spec);
  ASSERT_TRUE(status.ok()) << status;
  const v1::Host& host = spec.topology().hosts(0);
  EXPECT_EQ(host.nic_bytes_per_second(), 12.5e9);
  EXPECT_EQ(host.fabric_bytes_per_second(), 900e9);
  EXPECT_EQ(host.post_seconds(), 2e-6);
  EXPECT_EQ(spec.options().window_bytes(), 64 << 20);
  EXPECT_EQ(spec.options().memory_limit_bytes(), 1'000'000'000);
  EXPECT_EQ(Message("options: {window_bytes: 64mib}"),
            "options.window_bytes: value \"64mib\" must have a unit such as MiB, GiB, MB or GB, or "
            "none for bytes; did you mean MiB?");
  EXPECT_EQ(Message("topology: {hosts: [{nics: 1k}]}"),
            "topology.hosts[0].nics: value \"1k\" must be a whole number");
}

// Adds the numbers of `type` and of the messages in it to `numbers`.
void AddNumbers(const google::protobuf::Descriptor& type,
                std::set<const google::protobuf::Descriptor*>& seen,
                std::vector<const google::protobuf::FieldDescriptor*>& numbers) {
  using google::protobuf::FieldDescriptor;
  if (type.file()->package() != "remesh.v1" || !seen.insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->message_type() != nullptr) AddNumbers(*field->message_type(), seen, numbers);
    const bool is_number = field->cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
                           field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
    if (is_number) numbers.push_back(field);
  }
}

// The unit that the name of a field promises.
v1::Unit NamedUnit(const std::string& name) {
  if (absl::StrContains(name, "bytes_per_second")) return v1::RATE;
  if (absl::EndsWith(name, "_bytes")) return v1::BYTES;
  return absl::EndsWith(name, "_seconds") ? v1::SECONDS : v1::UNIT_UNSPECIFIED;
}

TEST(TextTest, EveryNumberOfASpecHasTheUnitThatItsNamePromises) {
  std::set<const google::protobuf::Descriptor*> seen;
  std::vector<const google::protobuf::FieldDescriptor*> numbers;
  for (const auto* type :
       {v1::PlanSpec::descriptor(), v1::State::descriptor(), v1::Targets::descriptor(),
        v1::TopologyPreset::descriptor(), v1::TopologyRules::descriptor()})
    AddNumbers(*type, seen, numbers);
  int with_unit = 0;
  for (const google::protobuf::FieldDescriptor* field : numbers) {
    const v1::Unit unit = field->options().GetExtension(v1::unit);
    EXPECT_EQ(unit, NamedUnit(field->name())) << field->full_name();
    const bool is_whole = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT64;
    if (unit == v1::UNIT_UNSPECIFIED) continue;
    EXPECT_EQ(unit == v1::BYTES, is_whole) << field->full_name();
    ++with_unit;
  }
  EXPECT_EQ(with_unit, 21);
}

TEST(TextTest, NumbersThatDoNotFitAreNamedByField) {
  EXPECT_EQ(
      Message("topology: {hosts: [{nic_bytes_per_second: 1e308TB/s}]}"),
      "topology.hosts[0].nic_bytes_per_second: value \"1e308TB/s\" must be below 1.8e308 bytes "
      "per second");
  for (const char* text : {"1e400", ".inf", "inf", "nan", "-1e400"}) {
    EXPECT_EQ(Message(absl::StrCat("topology: {hosts: [{post_seconds: ", text, "}]}")),
              absl::StrCat("topology.hosts[0].post_seconds: value \"", text,
                           "\" must be a number and a unit, as in 5s or 300ms"));
  }
  EXPECT_EQ(Message("options: {window_bytes: 9223372036854775808}"),
            "options.window_bytes: value \"9223372036854775808\" must be at most 4600000TB");
  EXPECT_EQ(Message("arrays: [{shape: [9223372036854775808]}]"),
            "arrays[0].shape[0]: value \"9223372036854775808\" is too large");
}

TEST(TextTest, TextsStandForShardingsAndLists) {
  v1::PlanSpec spec, plain;
  const absl::Status status = ParseText(R"yaml(shardings:
  jax: "NamedSharding(mesh=Mesh('x': 2), spec=P('x', None))"
  moved: {named: "NamedSharding(mesh=Mesh('x': 2), spec=P('x', None))", devices: [5, 4]}
  proto: {op_sharding: "{replicated}", devices: all}
  torch: {dtensor: "[Shard(0)]", devices: 0-3}
  mesh: {dtensor: {mesh_shape: [2, 2], placements: "(Shard(dim=0), Replicate())"}}
  list: {dtensor: {mesh_shape: [2, 2], placements: [S(1), R]}}
arrays:
- {name: w, source: rows, target: {ref: cols}}
)yaml",
                                        spec);
  ASSERT_TRUE(status.ok()) << status;
  const absl::Status again = ParseText(R"yaml(shardings:
  jax: &jax
    named:
      mesh: {axes: [{name: x, size: 2}]}
      dim_shardings: [{axes: [{mesh_axis_index: 0}], is_closed: true}, {is_closed: true}]
    devices: {range: {start: 0, count: 2}}
  moved:
    named:
      mesh: {axes: [{name: x, size: 2}]}
      dim_shardings: [{axes: [{mesh_axis_index: 0}], is_closed: true}, {is_closed: true}]
    devices: {ids: [5, 4]}
  proto: {hlo_text: "{replicated}", devices: {ref: all}}
  torch: {dtensor: {placements: [{shard: {dim: 0}}]}, devices: {range: {start: 0, count: 4}}}
  mesh: {dtensor: {mesh_shape: [2, 2], placements: [{shard: {dim: 0}}, {replicate: {}}]}}
  list: {dtensor: {mesh_shape: [2, 2], placements: [{shard: {dim: 1}}, {replicate: {}}]}}
arrays:
- {name: w, source: {ref: rows}, target: {ref: cols}}
)yaml",
                                       plain);
  ASSERT_TRUE(again.ok()) << again;
  EXPECT_EQ(spec.DebugString(), plain.DebugString());
}

TEST(TextTest, ATextThatYamlTakesForACommentIsNamed) {
  EXPECT_EQ(
      Message("shardings:\n  a:\n    sdy_text: #sdy.sharding<mesh<[\"x\"=4]>, [{\"x\"}]>\n"),
      "shardings[a].sdy_text: value \"\" is empty. YAML treats everything after # as a comment: "
      "put quotes around a text that begins with #");
  EXPECT_TRUE(Parse(R"({"shardings":{"a":{"hlo_text":null,"ref":"b"}}})").ok());
}

TEST(TextTest, RefusesWhatProtobufWouldSwallow) {
  EXPECT_EQ(Message("{\n\"options\":{\"donate\":true},\n\"options\":{}}"),
            "line 3, column 9: key \"options\" is given twice in one object");
  EXPECT_EQ(Message(R"({"arrays":[null]})"), "line 1, column 15: null in an array");
  EXPECT_NE(Message(R"({"arrays":[{"shape":[[1]]}]})").find("an array in an array"),
            std::string::npos);
  EXPECT_NE(Message("a: 1\na: 2").find("line 2, column 1: key \"a\" is given twice"),
            std::string::npos);
  EXPECT_NE(Message("arrays: [~]").find("null in an array"), std::string::npos);
}

TEST(TextTest, SyntaxErrorsHaveAPosition) {
  for (const char* text :
       {"{\"a\":", "{\"a\":1,}", "{\"a\":1}x", "{\"a\":\"\xff\"}", "{\"a\":1e999}", "a: [1",
        "a: b: c", "\t- x", "a: *nobody", "", "  \n", "%YAML 9.9.9\n---", "a: \"\\xzz\"",
        "? [1]\n: 2", "a: \xff\xfe", "--- {}\n--- {}", "~: 1"}) {
    const absl::Status status = Parse(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(GetErrorInfo(status).reason, "INVALID_TEXT") << text << " " << status;
  }
}

TEST(TextTest, DepthIsBounded) {
  const std::string deep(100'000, '[');
  EXPECT_NE(Message("{\"a\":" + deep).find("an array in an array"), std::string::npos);
  EXPECT_NE(
      Message("a: " + std::string(40, '[') + std::string(40, ']')).find("nested deeper than 32"),
      std::string::npos);
  EXPECT_FALSE(Parse("a: " + deep).ok());
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_NE(Message(objects).find("nested deeper than 32"), std::string::npos);
  std::string lines;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&lines, std::string(i, ' '), "a:\n");
  EXPECT_NE(Message(lines).find("nested deeper than 32"), std::string::npos);
}

TEST(TextTest, AliasesCountAsOftenAsTheyAreUsed) {
  std::string laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    absl::StrAppend(&laughs, "a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) absl::StrAppend(&laughs, j ? "," : "", "*a", i - 1);
    laughs += "]\n";
  }
  EXPECT_NE(Message(laughs).find("more than 1000000 nodes"), std::string::npos);

  std::string long_scalar = "a: &a " + std::string(1 << 20, 'x') + "\nb: [*a";
  for (int i = 0; i < 100; ++i) long_scalar += ",*a";
  EXPECT_NE(Message(long_scalar + "]").find("bytes as JSON"), std::string::npos);

  std::string deep = "a0: &a0 {k: v}\n";
  for (int i = 1; i < 40; ++i) absl::StrAppend(&deep, "a", i, ": &a", i, " {k: *a", i - 1, "}\n");
  EXPECT_NE(Message(deep).find("nested deeper than 32"), std::string::npos);
  EXPECT_NE(Message("a: &a [*a]").find("an alias inside its own anchor"), std::string::npos);
}

TEST(TextTest, AliasesCopyWhatTheyName) {
  const auto json = YamlToJson("x: &x {k: [a, &s b, ~]}\ny: [*x, *s]\n*s : c\nz: &x 1\nw: *x");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json,
            R"({"x":{"k":["a","b",null]},"y":[{"k":["a","b",null]},"b"],"b":"c","z":"1","w":"1"})");
}

TEST(TextTest, JsonOutPrintsEveryField) {
  v1::PlanOptions options;
  options.set_window_bytes(5);
  EXPECT_EQ(ToJson(options, false),
            R"({"windowBytes":"5","memoryLimitBytes":"0","donate":false,"freeTargetOrder":false,)"
            R"("lostDeviceIds":[],"strategy":"STRATEGY_UNSPECIFIED"})");
}

}  // namespace
}  // namespace remesh::proto
