// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/input.h"
#include "client/sharding_text.h"
#include "proto/convert/placed_arrays.h"
#include "proto/convert/shardings.h"

namespace remesh::client {

using planner::Box;
using planner::Interval;
using planner::Placement;

namespace {

using Json = nlohmann::ordered_json;

struct LayoutOptions {
  OutputFormat format = OutputFormat::kTable;
  std::string spec;
  std::string shape;
  std::string sharding;
  std::string devices;
};

// Integers become strings, as in protobuf's JSON.
Json Corner(const Box& box, int64_t Interval::*end) {
  Json corner = Json::array();
  for (const Interval& dim : box.dims) corner.push_back(absl::StrCat(dim.*end));
  return corner;
}

// Writes one entry for each device of the list, in order. Writes piece by piece, because layouts of
// large meshes are long.
void WriteDevices(const Placement& placement) {
  std::cout << "[";
  for (int32_t i = 0; i < placement.layout->device_count; ++i) {
    Json boxes = Json::array();
    for (const Box& box : planner::BoxesOf(*placement.layout, i)) {
      boxes.push_back({{"lo", Corner(box, &Interval::lo)}, {"hi", Corner(box, &Interval::hi)}});
    }
    const Json device = {{"device", absl::StrCat((*placement.devices)[i])},
                         {"boxes", std::move(boxes)}};
    std::cout << (i > 0 ? ",\n  " : "\n  ") << device.dump();
  }
  std::cout << "]";
}

Table NewTable() { return Table({"ARRAY", "SIDE", "DEVICE", "BOXES"}); }

void AddRows(const std::string& array, const char* side, const Placement& placement, Table& table) {
  for (int32_t i = 0; i < placement.layout->device_count; ++i) {
    std::string boxes;
    for (const Box& box : planner::BoxesOf(*placement.layout, i)) {
      absl::StrAppend(&boxes, boxes.empty() ? "" : " ", box.DebugString());
    }
    table.AddRow({array, side, absl::StrCat((*placement.devices)[i]), OrDash(boxes)});
  }
}

struct BothSides {
  std::string name;
  Placement source;
  Placement target;
};

absl::StatusOr<std::vector<BothSides>> ArraysOf(const v1::PlanSpec& spec) {
  proto::Shardings shardings;
  RETURN_IF_ERROR(shardings.SetNamed(spec.shardings(), spec.device_lists()));
  std::vector<BothSides> arrays;
  for (int i = 0; i < spec.arrays_size(); ++i) {
    const v1::ArraySpec& array = spec.arrays(i);
    ASSIGN_OR_RETURN(auto source,
                     proto::ToPlacedArray(array, i, "source", array.source(), shardings));
    ASSIGN_OR_RETURN(auto target,
                     proto::ToPlacedArray(array, i, "target", array.target(), shardings));
    arrays.push_back({array.name(), std::move(source.placement), std::move(target.placement)});
  }
  return arrays;
}

absl::Status ShowSpec(const LayoutOptions& options) {
  v1::PlanSpec spec;
  RETURN_IF_ERROR(ReadMessage(options.spec, spec));
  const absl::StatusOr<std::vector<BothSides>> placed = ArraysOf(spec);
  RETURN_IF_ERROR(AtFile(options.spec, placed.status()));
  const std::vector<BothSides>& arrays = *placed;
  if (options.format == OutputFormat::kTable) {
    Table table = NewTable();
    for (const BothSides& array : arrays) {
      AddRows(array.name, "source", array.source, table);
      AddRows(array.name, "target", array.target, table);
    }
    std::cout << table.ToString() << std::flush;
    return absl::OkStatus();
  }
  std::cout << "{\"arrays\":[";
  for (const BothSides& array : arrays) {
    std::cout << (&array == arrays.data() ? "\n" : ",\n")
              << " {\"name\":" << Json(array.name).dump() << ",\"source\":";
    WriteDevices(array.source);
    std::cout << ",\"target\":";
    WriteDevices(array.target);
    std::cout << "}";
  }
  std::cout << "]}" << std::endl;
  return absl::OkStatus();
}

absl::Status ShowText(const LayoutOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> extents, ParseIntegers("--shape", options.shape));
  const planner::Shape shape(extents.begin(), extents.end());
  RETURN_IF_ERROR(planner::ValidateShape(shape, 8));
  v1::Sharding sharding = ShardingOfText(options.sharding);
  ASSIGN_OR_RETURN(*sharding.mutable_devices(), ParseDevices(options.devices));
  ASSIGN_OR_RETURN(const Placement placement,
                   proto::Shardings().Resolve(sharding, shape, [] { return "sharding"; }));
  if (options.format == OutputFormat::kJson) {
    std::cout << "{\"devices\":";
    WriteDevices(placement);
    std::cout << "}" << std::endl;
    return absl::OkStatus();
  }
  Table table = NewTable();
  AddRows("-", "-", placement, table);
  std::cout << table.ToString() << std::flush;
  return absl::OkStatus();
}

}  // namespace

void AddLayout(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("layout", "Show the boxes that each device holds");
  auto options = std::make_shared<LayoutOptions>();
  AddShortOutputFlag(*sub, options->format);
  CLI::Option* spec =
      sub->add_option("-f,--file", options->spec, "PlanSpec, JSON or YAML; - is stdin");
  CLI::Option* shape =
      sub->add_option("--shape", options->shape, "Extents, as in 4,5; empty for a scalar");
  CLI::Option* sharding =
      sub->add_option("--sharding", options->sharding, "Text of HLO or of Shardy");
  CLI::Option* devices =
      sub->add_option("--devices", options->devices, "Device ids in order, as in 7,3,0..15");
  shape->needs(sharding)->needs(devices)->excludes(spec);
  sharding->needs(shape);
  devices->needs(shape);
  sub->callback([&command, options, spec, shape] {
    if (spec->count() + shape->count() == 0)
      throw CLI::RequiredError("--file, or --shape, --sharding and --devices");
    command = [options] { return options->spec.empty() ? ShowText(*options) : ShowSpec(*options); };
  });
}

}  // namespace remesh::client
