// SPDX-License-Identifier: Apache-2.0
//
// Every kind of bad spec is INVALID_ARGUMENT and names the field and the value.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "proto/convert/plan_spec.h"
#include "proto/text/text.h"

namespace remesh::proto {
namespace {

struct BadSpec {
  const char* what;
  const char*
      json;  // a PlanSpec; $T a good topology, $S and $D good sides, $A the start of a good array
  const char* field;  // the field that the error names
  const char* value;  // the value that the error shows
};

std::string Expand(std::string json) {
  const std::pair<const char*, const char*> macros[] = {
      {"$T",
       R"("topology":{"hosts":[{"name":"a","device_ids":[0,1],"nic_bytes_per_second":1e9,"fabric_bytes_per_second":1e11},
                                     {"name":"b","device_ids":[2,3],"nic_bytes_per_second":1e9,"fabric_bytes_per_second":1e11}]})"},
      {"$H", R"("name":"a","device_ids":[0,1,2,3],"fabric_bytes_per_second":1e11)"},
      {"$A", R"("name":"w","shape":[8,8],"element_type":"bf16")"},
      {"$S", R"("source":{"hlo_text":"{devices=[4,1]<=[4]}","devices":{"range":{"count":4}}})"},
      {"$D", R"("target":{"hlo_text":"{devices=[1,4]<=[4]}","devices":{"range":{"count":4}}})"},
  };
  for (const auto& [name, text] : macros) {
    for (size_t at = json.find(name); at != std::string::npos; at = json.find(name))
      json.replace(at, 2, text);
  }
  return json;
}

const BadSpec kBadSpecs[] = {
    {"no topology", R"({"arrays":[{$A,$S,$D}]})", "topology.hosts", ""},
    {"no arrays", R"({$T})", "arrays", ""},
    {"NaN bandwidth",
     R"({"topology":{"hosts":[{$H,"nic_bytes_per_second":"NaN"}]},"arrays":[{$A,$S,$D}]})",
     "topology.hosts[0].nic_bytes_per_second", "NaN"},
    {"infinite bandwidth",
     R"({"topology":{"hosts":[{$H,"nic_bytes_per_second":"Infinity"}]},"arrays":[{$A,$S,$D}]})",
     "topology.hosts[0].nic_bytes_per_second", "Infinity"},
    {"no bandwidth", R"({"topology":{"hosts":[{$H}]},"arrays":[{$A,$S,$D}]})",
     "topology.hosts[0].nic_bytes_per_second", "0"},
    {"negative bandwidth",
     R"({"topology":{"hosts":[{$H,"nic_bytes_per_second":-1}]},"arrays":[{$A,$S,$D}]})",
     "topology.hosts[0].nic_bytes_per_second", "-1"},
    {"negative nics",
     R"({"topology":{"hosts":[{$H,"nic_bytes_per_second":1,"nics":-2}]},"arrays":[{$A,$S,$D}]})",
     "topology.hosts[0].nics", "-2"},
    {"unknown parent",
     R"({"topology":{"hosts":[{$H,"nic_bytes_per_second":1,"parent":"r9"}]},"arrays":[{$A,$S,$D}]})",
     "topology.hosts[0].parent", "r9"},
    {"repeated device of the topology",
     R"({"topology":{"hosts":[{"name":"a","device_ids":[7,7],"nic_bytes_per_second":1,"fabric_bytes_per_second":1}]},"arrays":[{$A,$S,$D}]})",
     "topology.hosts[0].device_ids[1]", "7"},
    {"no name", R"({$T,"arrays":[{"shape":[8],"element_type":"f32",$S,$D}]})", "arrays[0].name",
     ""},
    {"repeated name", R"({$T,"arrays":[{$A,$S,$D},{$A,$S,$D}]})", "arrays[1].name", "w"},
    {"unknown type", R"({$T,"arrays":[{"name":"w","shape":[8,8],"element_type":"BF16",$S,$D}]})",
     "arrays[0].element_type", "BF16"},
    {"negative extent", R"({$T,"arrays":[{"name":"w","shape":[8,-8],"element_type":"f32",$S,$D}]})",
     "arrays[0].shape[1]", "-8"},
    {"overflow of the size",
     R"({$T,"arrays":[{"name":"w","shape":["4294967296","4294967296"],"element_type":"f32",$S,$D}]})",
     "arrays[0].shape", "4294967296"},
    {"rank over 32",
     R"({$T,"arrays":[{"name":"w","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"element_type":"f32",$S,$D}]})",
     "arrays[0].shape", "1,1,1"},
    {"wrong rank", R"({$T,"arrays":[{"name":"w","shape":[8],"element_type":"f32",$S,$D}]})",
     "arrays[0].source.shape", "[8]"},
    {"wrong rank for a named sharding",
     R"({$T,"shardings":{"rows":{"hlo_text":"{devices=[4,1]<=[4]}","devices":{"range":{"count":4}}}},
         "arrays":[{"name":"w","shape":[8],"element_type":"f32","source":{"ref":"rows"},$D}]})",
     "arrays[0].source.shape", "[8]"},
    {"no source", R"({$T,"arrays":[{$A,$D}]})", "arrays[0].source", ""},
    {"undecodable OpSharding",
     R"({$T,"arrays":[{$A,"source":{"op_sharding":"/////w==","devices":{"range":{"count":4}}},$D}]})",
     "arrays[0].source.op_sharding", "\\xff"},
    {"bad HLO text",
     R"({$T,"arrays":[{$A,"source":{"hlo_text":"{devices=[4,1<=[4]}","devices":{"range":{"count":4}}},$D}]})",
     "arrays[0].source.hlo_text", "{devices"},
    {"unknown sharding",
     R"({$T,"shardings":{"u":{"hlo_text":"{unknown}","devices":{"range":{"count":4}}}},"arrays":[{$A,"source":{"ref":"u"},$D}]})",
     "shardings[u].hlo_text", "unknown"},
    {"named sharding of no axis",
     R"({$T,"shardings":{"n":{"named":{"mesh":{"axes":[{"name":"x","size":4}]},"dim_shardings":[{"axes":[{"mesh_axis_index":3}]},{}]},
         "devices":{"range":{"count":4}}}},"arrays":[{$A,$S,$D}]})",
     "shardings[n].named", "mesh_axis_index: 3"},
    {"placements that do not match the mesh",
     R"({$T,"arrays":[{$A,"source":{"dtensor":{"mesh_shape":[4],"placements":[]},"devices":{"range":{"count":4}}},$D}]})",
     "arrays[0].source.dtensor.placements", "0"},
    {"bad Shardy text",
     R"({$T,"arrays":[{$A,"source":{"sdy_text":"#sdy.sharding<","devices":{"range":{"count":4}}},$D}]})",
     "arrays[0].source.sdy_text", "#sdy.sharding<"},
    {"unknown sharding ref", R"({$T,"arrays":[{$A,"source":{"ref":"nobody"},$D}]})",
     "arrays[0].source.ref", "nobody"},
    {"ref of a ref", R"({$T,"shardings":{"a":{"ref":"b"}},"arrays":[{$A,$S,$D}]})",
     "shardings[a].ref", "b"},
    {"ref with devices",
     R"({$T,"shardings":{"a":{"hlo_text":"{replicated}","devices":{"ids":[1]}}},"arrays":[{$A,"source":{"ref":"a","devices":{"ids":[2]}},$D}]})",
     "arrays[0].source.devices", "ids: 2"},
    {"memory kind",
     R"({$T,"shardings":{"a":{"hlo_text":"{replicated}","devices":{"ids":[1]},"memory_kind":"hbm"}},"arrays":[{$A,$S,$D}]})",
     "shardings[a].memory_kind", "hbm"},
    {"unknown device list",
     R"({$T,"arrays":[{$A,"source":{"hlo_text":"{replicated}","devices":{"ref":"x"}},$D}]})",
     "arrays[0].source.devices", "x"},
    {"device list of a ref", R"({$T,"device_lists":{"x":{"ref":"y"}},"arrays":[{$A,$S,$D}]})",
     "device_lists[x].ref", "y"},
    {"ids and a range",
     R"({$T,"device_lists":{"x":{"ids":[1],"range":{"count":2}}},"arrays":[{$A,$S,$D}]})",
     "device_lists[x].ids", "1 ids"},
    {"no devices", R"({$T,"arrays":[{$A,"source":{"hlo_text":"{replicated}"},$D}]})",
     "arrays[0].source.devices.ids", ""},
    {"repeated device",
     R"({$T,"arrays":[{$A,"source":{"hlo_text":"{replicated}","devices":{"ids":[0,1,0]}},$D}]})",
     "arrays[0].source.devices.ids[2]", "0"},
    {"negative device", R"({$T,"device_lists":{"x":{"ids":[0,-5]}},"arrays":[{$A,$S,$D}]})",
     "device_lists[x].ids[1]", "-5"},
    {"huge range",
     R"({$T,"device_lists":{"x":{"range":{"count":"9223372036854775807"}}},"arrays":[{$A,$S,$D}]})",
     "device_lists[x].range.count", "9223372036854775807"},
    {"range overflow",
     R"({$T,"device_lists":{"x":{"range":{"start":"9223372036854775807","count":2}}},"arrays":[{$A,$S,$D}]})",
     "device_lists[x].range.start", "9223372036854775807"},
    {"device not of the topology",
     R"({$T,"arrays":[{$A,"source":{"hlo_text":"{replicated}","devices":{"ids":[9]}},$D}]})",
     "arrays[0].source.devices[0]", "9"},
    {"devices that do not match",
     R"({$T,"arrays":[{$A,"source":{"hlo_text":"{devices=[4,1]<=[4]}","devices":{"ids":[0,1]}},$D}]})",
     "arrays[0].source.devices", "2"},
    {"a source that does not cover",
     R"({$T,"arrays":[{$A,"source":{"boxes":{"devices":[{"device":0,"boxes":[{"lo":[0,0],"hi":[8,7]}]}]}},$D}]})",
     "arrays[0].source.boxes", "[0:8,7:8]"},
    {"box outside",
     R"({$T,"arrays":[{$A,"source":{"boxes":{"devices":[{"device":0,"boxes":[{"lo":[0,0],"hi":[8,9]}]}]}},$D}]})",
     "arrays[0].source.boxes.devices[0].boxes[0]", "[0:8,0:9]"},
    {"box upside down",
     R"({$T,"arrays":[{$A,"source":{"boxes":{"devices":[{"device":0,"boxes":[{"lo":[0,5],"hi":[8,4]}]}]}},$D}]})",
     "arrays[0].source.boxes.devices[0].boxes[0].hi[1]", "4"},
    {"overlapping boxes",
     R"({$T,"arrays":[{$A,"source":{"boxes":{"devices":[{"device":0,"boxes":[{"lo":[0,0],"hi":[8,8]},{"lo":[1,1],"hi":[2,2]}]}]}},$D}]})",
     "arrays[0].source.boxes.devices[0].boxes[1]", "[1:2,1:2]"},
    {"devices beside boxes",
     R"({$T,"arrays":[{$A,"source":{"boxes":{"devices":[{"device":0,"boxes":[{"lo":[0,0],"hi":[8,8]}]}]},"devices":{"ids":[0]}},$D}]})",
     "arrays[0].source.devices", "ids: 0"},
    {"subgroups of one side",
     R"({$T,"arrays":[{$A,"source":{"hlo_text":"{manual}","devices":{"range":{"count":4}}},$D}]})",
     "arrays[0].source", "manual(4)"},
    {"negative window", R"({$T,"arrays":[{$A,$S,$D}],"options":{"window_bytes":-1}})",
     "options.window_bytes", "-1"},
    {"unknown strategy", R"({$T,"arrays":[{$A,$S,$D}],"options":{"strategy":17}})",
     "options.strategy", "17"},
    {"unknown lost device", R"({$T,"arrays":[{$A,$S,$D}],"options":{"lost_device_ids":[44]}})",
     "options.lost_device_ids[0]", "44"},
    {"fallback of nothing", R"({$T,"arrays":[{$A,$S,$D}],"fallbacks":[{"step":1}]})",
     "fallbacks[0].source", ""},
    {"relative checkpoint", R"({$T,"arrays":[{$A,$S,$D}],"fallbacks":[{"checkpoint":"x/y"}]})",
     "fallbacks[0].checkpoint", "x/y"},
    {"unknown field", R"({$T,"arrays":[{$A,$S,$D,"dtype":"bf16"}]})", "arrays[0].dtype", "dtype"},
};

TEST(BadSpecTest, EveryKindNamesFieldAndValue) {
  for (const BadSpec& bad : kBadSpecs) {
    SCOPED_TRACE(bad.what);
    v1::PlanSpec spec;
    absl::Status status = ParseText(Expand(bad.json), spec);
    if (status.ok()) status = ToReshardRequest(spec, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    ErrorInfo info = GetErrorInfo(status);
    EXPECT_EQ(info.metadata["field"], bad.field) << status;
    EXPECT_NE(info.metadata["value"].find(bad.value), std::string::npos) << status;
    EXPECT_NE(std::string(status.message()).find(bad.field), std::string::npos) << status;
  }
}

std::string Refusal(const std::string& json) {
  v1::PlanSpec spec;
  absl::Status status = ParseText(Expand(json), spec);
  if (status.ok()) status = ToReshardRequest(spec, nullptr).status();
  return std::string(status.message());
}

TEST(BadSpecTest, AMistypedRefGetsASuggestion) {
  const std::string rows =
      R"("shardings":{"rows":{"hlo_text":"{devices=[4,1]<=[4]}","devices":{"ref":"all"}}},
      "device_lists":{"all":{"range":{"count":4}}})";
  EXPECT_EQ(
      Refusal("{$T," + rows + R"(,"arrays":[{$A,"source":{"ref":"row"},$D}]})"),
      "arrays[0].source.ref: value \"row\" must be a key of shardings; did you mean \"rows\"?");
  EXPECT_EQ(
      Refusal(
          "{$T," + rows +
          R"(,"arrays":[{$A,"source":{"hlo_text":"{replicated}","devices":{"ref":"al"}},$D}]})"),
      "arrays[0].source.devices: value \"al\" must be a key of device_lists; did you mean "
      "\"all\"?");
}

TEST(BadSpecTest, AShapeThatDoesNotSuitNamesTheShardingToo) {
  const std::string refusal = Refusal(
      R"({$T,"shardings":{"rows":{"hlo_text":"{devices=[4,1]<=[4]}","devices":{"range":{"count":4}}}},
          "arrays":[{"name":"w","shape":[8],"element_type":"f32","source":{"ref":"rows"},$D}]})");
  EXPECT_NE(refusal.find("(from shardings[rows])"), std::string::npos) << refusal;
}

absl::Status RefusalOfLists(int lists) {
  v1::PlanSpec spec;
  for (int i = 0; i < lists; ++i) {
    v1::DeviceList::Range& range =
        *(*spec.mutable_device_lists())[absl::StrCat("l", i)].mutable_range();
    range.set_start(i);
    range.set_count(1 << 20);
  }
  v1::Host& host = *spec.mutable_topology()->add_hosts();
  host.set_name("a");
  host.add_device_ids(0);
  host.set_nic_bytes_per_second(1);
  host.set_fabric_bytes_per_second(1);
  return ToReshardRequest(spec, nullptr).status();
}

TEST(BadSpecTest, ShortMessagesThatMeanMuchAreRefused) {
  constexpr absl::string_view kRefusal = "in all device lists together";
  EXPECT_EQ(RefusalOfLists(8).message().find(kRefusal), absl::string_view::npos);
  const absl::Status status = RefusalOfLists(9);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(kRefusal), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace remesh::proto
