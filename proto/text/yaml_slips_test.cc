// SPDX-License-Identifier: Apache-2.0
#include "proto/text/yaml_slips.h"

#include <gtest/gtest.h>

#include "proto/text/yaml_to_json.h"

namespace remesh::proto {
namespace {

std::string Refusal(const std::string& yaml) {
  return std::string(YamlToJson(yaml).status().message());
}

TEST(YamlSlipsTest, TheCommonSlipsAreNamed) {
  EXPECT_EQ(Refusal("arrays:\n\t- name: w\n"),
            "line 2, column 1: YAML does not allow tabs for indentation: use spaces");
  EXPECT_EQ(Refusal("a: {hlo_text: {devices=[4,1]<=[4]}, devices: all}"),
            "line 1, column 15: put quotes around the text of a sharding, as in hlo_text: "
            "'{devices=[4,1]<=[4]}'");
  EXPECT_EQ(Refusal("arrays:\n- name:w\n  shape: [8]\n"),
            "line 2, column 8: put a space after the colon");
  EXPECT_EQ(Refusal("a: NamedSharding(mesh=Mesh('x': 4), spec=P('x'))"),
            "line 1, column 31: put quotes around a value that has a colon and a space in it");
  EXPECT_EQ(Refusal("a: [1, 2\nb: 3\n"), "line 2, column 2: unclosed [: add a ] before this point");
  EXPECT_EQ(Refusal("a: {b: 1\n"), "line 2, column 1: unclosed {: add a } before this point");
  EXPECT_EQ(Refusal("a: 1\n  b: 2\n"),
            "line 2, column 3: wrong indentation: keys of one map must start in the "
            "same column");
  EXPECT_EQ(Refusal("a:\n    b: 1\n  c: 2\n"),
            "line 3, column 3: wrong indentation: keys of one map must start in the "
            "same column");
  EXPECT_EQ(Refusal("a: @mesh\n"),
            "line 1, column 4: put quotes around a value that begins with @, ` or %");
}

}  // namespace
}  // namespace remesh::proto
