// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "planner/sharding/dtensor.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/to_layout.h"
#include "planner/values/coverage.h"
#include "planner/values/layout.h"
#include "proto/sharding/convert_sharding.h"

namespace remesh::planner {
namespace {

using Json = nlohmann::json;

// Calls check with every line of a file of tests/data, and returns how many there were.
int ForEachLine(const std::string& name, const std::function<void(const Json&)>& check) {
  std::ifstream file("tests/data/" + name);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    SCOPED_TRACE(absl::StrCat(name, ":", lines + 1, ": ", line.substr(0, 200)));
    check(Json::parse(line));
    if (::testing::Test::HasFatalFailure()) break;
  }
  return lines;
}

std::string Bytes(const Json& hex) { return absl::HexStringToBytes(hex.get<std::string>()); }

Shape ShapeOf(const Json& extents) {
  Shape shape;
  for (int64_t extent : extents) shape.push_back(extent);
  return shape;
}

// The layout of an array whose position i holds the products of intervals[i][d], all positions
// without a subgroup.
Layout Expected(const Shape& shape,
                const std::vector<std::vector<std::vector<Interval>>>& intervals) {
  std::vector<std::vector<Box>> boxes;
  for (const auto& dims : intervals) {
    std::vector<Box> product(dims.size() == shape.size() ? 1 : 0);
    for (const auto& choices : dims) {
      std::vector<Box> longer;
      for (const Box& box : product) {
        for (const Interval& interval : choices) {
          longer.push_back(box);
          longer.back().dims.push_back(interval);
        }
      }
      product = longer;
    }
    boxes.push_back(product);
  }
  auto layout = MakeBoxLayout(shape, boxes);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

TEST(VectorsTest, JaxNamedShardings) {
  const int lines = ForEachLine("jax_vectors.jsonl", [](const Json& line) {
    const auto sharding = proto::OpShardingFromBytes(Bytes(line["op_sharding"]));
    ASSERT_TRUE(sharding.ok()) << sharding.status();
    EXPECT_EQ(PrintHloSharding(*sharding), line["text"]);
    EXPECT_EQ(proto::OpShardingToBytes(*sharding), Bytes(line["op_sharding"]));
    const Shape shape = ShapeOf(line["shape"]);
    std::vector<std::vector<std::vector<Interval>>> intervals;
    for (const Json& box : line["boxes"]) {
      intervals.emplace_back();
      for (const Json& dim : box) intervals.back().push_back({{dim[0], dim[1]}});
    }
    const auto count = static_cast<int32_t>(line["devices"].size());
    const auto layout = ToLayout(*sharding, shape, count);
    ASSERT_TRUE(layout.ok()) << layout.status();
    const Layout expected = Expected(shape, intervals);
    EXPECT_EQ(*layout, expected) << layout->DebugString() << "\nexpected "
                                 << expected.DebugString();
    const auto from_text =
        ToLayout(*ParseHloSharding(line["text"].get<std::string>()), shape, count);
    ASSERT_TRUE(from_text.ok()) << from_text.status();
    EXPECT_EQ(*from_text, expected);
  });
  EXPECT_GE(lines, 200);
}

TEST(VectorsTest, HloTextsAndBytes) {
  const int lines = ForEachLine("hlo_vectors.jsonl", [](const Json& line) {
    const auto given = ParseHloSharding(line["given"].get<std::string>());
    ASSERT_TRUE(given.ok()) << given.status();
    EXPECT_EQ(PrintHloSharding(*given), line["text"]);
    const auto again = ParseHloSharding(PrintHloSharding(*given));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(PrintHloSharding(*ParseHloSharding(PrintHloSharding(*again))),
              PrintHloSharding(*again));
    const auto from_bytes = proto::OpShardingFromBytes(Bytes(line["op_sharding"]));
    ASSERT_TRUE(from_bytes.ok()) << from_bytes.status();
    // Named shardings that print without their mesh keep it in their bytes only.
    const bool named = std::holds_alternative<NamedSharding>(given->form);
    const bool loses_mesh = named && !std::holds_alternative<NamedSharding>(again->form);
    EXPECT_EQ(*from_bytes, loses_mesh ? *given : *again);
    EXPECT_EQ(absl::BytesToHexString(proto::OpShardingToBytes(*given)), line["op_sharding"]);
  });
  EXPECT_GE(lines, 400);
}

TEST(VectorsTest, NamedShardingsMeanTheirTiles) {
  int named = 0;
  ForEachLine("hlo_vectors.jsonl", [&](const Json& line) {
    if (!line.contains("v2")) return;
    ++named;
    const auto sharding = ParseHloSharding(line["given"].get<std::string>());
    const auto tiles = ParseHloSharding(line["v2"].get<std::string>());
    ASSERT_TRUE(sharding.ok() && tiles.ok());
    const auto& value = std::get<NamedSharding>(sharding->form);
    Shape shape;
    for (size_t d = 0; d < value.dims.size(); ++d)
      shape.push_back(7 + 10 * static_cast<int64_t>(d));
    const auto count = static_cast<int32_t>(value.mesh.devices.size());
    const auto from_named = ToLayout(*sharding, shape, count);
    const auto from_tiles = ToLayout(*tiles, shape, count);
    ASSERT_TRUE(from_named.ok()) << from_named.status();
    ASSERT_TRUE(from_tiles.ok()) << from_tiles.status();
    EXPECT_EQ(*from_named, *from_tiles)
        << from_named->DebugString() << "\nv2 " << from_tiles->DebugString();
  });
  EXPECT_GE(named, 150);
}

DTensorSharding DTensorOf(const Json& line) {
  DTensorSharding sharding{line["mesh"].get<std::vector<int64_t>>(), {}};
  for (const Json& placement : line["placements"]) {
    const std::string kind = placement[0];
    if (kind == "S") sharding.placements.emplace_back(DTensorSharding::Shard{placement[1]});
    if (kind == "SS")
      sharding.placements.emplace_back(DTensorSharding::StridedShard{placement[1], placement[2]});
    if (kind == "R") sharding.placements.emplace_back(DTensorSharding::Replicate{});
    if (kind == "P") sharding.placements.emplace_back(DTensorSharding::Partial{placement[1]});
  }
  return sharding;
}

TEST(VectorsTest, DTensors) {
  const int lines = ForEachLine("dtensor_vectors.jsonl", [](const Json& line) {
    const Shape shape = ShapeOf(line["shape"]);
    std::vector<std::vector<std::vector<Interval>>> intervals;
    for (const Json& rank : line["indices"]) {
      intervals.emplace_back();
      if (rank.is_null()) continue;
      for (const Json& dim : rank) {
        intervals.back().emplace_back();
        for (const Json& interval : dim)
          intervals.back().back().push_back({interval[0], interval[1]});
      }
    }
    const auto layout = ToLayout(DTensorOf(line), shape, static_cast<int32_t>(intervals.size()));
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_TRUE(CheckCovers(*layout).ok()) << CheckCovers(*layout);
    const Layout expected = Expected(shape, intervals);
    for (int32_t position = 0; position < layout->device_count; ++position) {
      EXPECT_EQ(BoxesOf(*layout, position), BoxesOf(expected, position))
          << position << " " << layout->DebugString();
    }
    if (layout->subgroup_kind.empty()) {
      EXPECT_EQ(*layout, expected);
    }
  });
  EXPECT_GE(lines, 200);
}

}  // namespace
}  // namespace remesh::planner
