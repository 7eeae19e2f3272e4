// SPDX-License-Identifier: Apache-2.0
#include "proto/text/field_places.h"

#include <gtest/gtest.h>

namespace remesh::proto {
namespace {

size_t LineOf(const std::string& text, const std::string& field) {
  return FindPlaces(text, {field})[0].line;
}

constexpr char kYaml[] = R"(shardings:
  rows: &rows
    hlo_text: "{replicated}"
    devices: {ids: [0,
                    1]}
  layer.0: *rows
arrays:
- name: w
  shape: [8,
          8]
- name: v
)";

TEST(FieldPlacesTest, YamlLines) {
  EXPECT_EQ(LineOf(kYaml, "shardings[rows].hlo_text"), 3u);
  EXPECT_EQ(LineOf(kYaml, "shardings[rows].hloText"), 3u);
  EXPECT_EQ(LineOf(kYaml, "shardings[rows].devices.ids[1]"), 5u);
  EXPECT_EQ(LineOf(kYaml, "shardings[layer.0].hlo_text"), 6u);
  EXPECT_EQ(LineOf(kYaml, "arrays[0].shape[1]"), 10u);
  EXPECT_EQ(LineOf(kYaml, "arrays[1].name"), 11u);
}

TEST(FieldPlacesTest, AFieldThatIsMissingIsWhereItShouldBe) {
  EXPECT_EQ(LineOf(kYaml, "arrays[1].source.form"), 11u);
  EXPECT_EQ(LineOf(kYaml, "arrays[2].name"), 7u);
  EXPECT_EQ(LineOf(kYaml, "topology.hosts"), 0u);
}

TEST(FieldPlacesTest, APathOfARequestIsFoundInItsPart) {
  EXPECT_EQ(LineOf(kYaml, "spec.arrays[1].name"), 11u);
  EXPECT_EQ(LineOf(kYaml, "state.spec.arrays[1].name"), 11u);
}

TEST(FieldPlacesTest, Json) {
  const std::string json =
      "{\n \"arrays\": [\n  {\"name\": \"w\"},\n  {\"elementType\": \"x\"}\n ]}";
  EXPECT_EQ(LineOf(json, "arrays[1].element_type"), 4u);
  EXPECT_EQ(FindPlaces(json, {"arrays[1].element_type"})[0].column, 4u);
}

TEST(FieldPlacesTest, WhatCannotBeReadHasNoPlace) {
  EXPECT_EQ(LineOf("a: [", "b"), 0u);
  EXPECT_EQ(LineOf("", "a"), 0u);
  EXPECT_EQ(LineOf("a: 1", ""), 0u);
}

}  // namespace
}  // namespace remesh::proto
