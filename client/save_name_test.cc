// SPDX-License-Identifier: Apache-2.0
#include "client/save_name.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace remesh::client {
namespace {

// The same file is read by client/python/tests/names_test.py.
TEST(SaveNameTest, NamesMeanWhatTheVectorsSay) {
  std::ifstream file("tests/data/save_names.txt");
  ASSERT_TRUE(file.is_open());
  SaveName before;
  int saves = 0, others = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, kind;
    int64_t world = 0, number = 0;
    words >> name >> kind >> world >> number;
    const std::optional<SaveName> save = ParseSaveName(name);
    EXPECT_EQ(save.has_value(), kind == "save") << name;
    EXPECT_EQ(ParseWorldName(name).has_value(), kind == "world") << name;
    if (kind == "world") EXPECT_EQ(ParseWorldName(name), world) << name;
    if (!save.has_value()) {
      ++others;
      continue;
    }
    EXPECT_EQ(save->world, world) << name;
    EXPECT_EQ(save->number, number) << name;
    EXPECT_LT(before, *save) << name;
    before = *save;
    ++saves;
  }
  EXPECT_GT(saves, 5);
  EXPECT_GT(others, 10);
}

TEST(SaveNameTest, ANameHasAJobAndALastPart) {
  EXPECT_EQ(JobOf("jobs/llama/states/save.000001.00000001"), "llama");
  EXPECT_EQ(LastPartOf("jobs/llama/states/save.000001.00000001"), "save.000001.00000001");
}

}  // namespace
}  // namespace remesh::client
