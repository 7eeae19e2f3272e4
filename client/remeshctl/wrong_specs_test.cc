// SPDX-License-Identifier: Apache-2.0
//
// What remeshctl says of the wrong specs in tests/data/wrong_specs.yaml, to the letter.
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/testing/remeshctl.h"

namespace remesh::client {
namespace {

// What comes before the code and the reason, for the file as "spec.yaml".
std::string Says(const std::string& err, const std::string& path) {
  return absl::StrReplaceAll(err.substr(0, err.find("  code: ")), {{path, "spec.yaml"}});
}

TEST(WrongSpecsTest, EveryMessageIsAsTheFileHasIt) {
  const std::string path = absl::StrCat(testing::TempDir(), "/wrong_specs.", getpid(), ".yaml");
  const YAML::Node specs = YAML::LoadFile("tests/data/wrong_specs.yaml");
  ASSERT_GE(specs.size(), 60u);
  for (const YAML::Node& spec : specs) {
    SCOPED_TRACE(spec["name"].as<std::string>());
    std::ofstream(path) << spec["spec"].as<std::string>();
    const Result result = Remeshctl(absl::StrCat("plan -f ", path));
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(Says(result.err, path), spec["says"].as<std::string>());
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace remesh::client
