// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/element_oracle.h"

#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace remesh::testing {

using planner::Box;

namespace {

std::vector<int64_t> Numbers(const std::string& text) {
  std::vector<int64_t> result;
  std::stringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    if (item != "-") result.push_back(std::stoll(item));
  }
  return result;
}

std::string Hex(absl::Span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  for (std::byte byte : bytes) {
    result += kDigits[std::to_integer<int>(byte) >> 4];
    result += kDigits[std::to_integer<int>(byte) & 15];
  }
  return result.empty() ? "-" : result;
}

struct Vector {
  std::string name;
  OracleArray array;
  Box box;
  std::string hex;
};

// Lines "name type shape lo hi salt hex"; '-' stands for nothing, '#' starts a comment.
std::vector<Vector> ReadVectors() {
  std::ifstream file("tests/data/element_oracle.txt");
  std::vector<Vector> result;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::stringstream fields(line);
    std::string name, type, shape, lo, hi, hex;
    uint64_t salt = 0;
    fields >> name >> type >> shape >> lo >> hi >> salt >> hex;
    Vector vector{
        name, {ArrayKey(name), planner::ParseElementType(type).value(), {}, salt}, {}, hex};
    for (int64_t extent : Numbers(shape)) vector.array.shape.push_back(extent);
    const std::vector<int64_t> low = Numbers(lo), high = Numbers(hi);
    for (size_t d = 0; d < low.size(); ++d) vector.box.dims.push_back({low[d], high[d]});
    result.push_back(vector);
  }
  return result;
}

TEST(ElementOracle, AgreesWithTheVectorsThatPythonAgreesWith) {
  const std::vector<Vector> vectors = ReadVectors();
  ASSERT_GE(vectors.size(), 20u);
  for (const Vector& v : vectors) {
    std::vector<std::byte> buffer(BoxBytes(v.array, v.box), std::byte{0xAA});
    FillBox(v.array, v.box, absl::MakeSpan(buffer));
    EXPECT_EQ(Hex(buffer), v.hex) << v.name << " " << v.box.DebugString();
    EXPECT_FALSE(CheckBox(v.array, v.box, buffer).has_value()) << v.name;
  }
}

TEST(ElementOracle, FindsAWrongElement) {
  const OracleArray array{ArrayKey("w"), planner::ElementType::kS4, {3, 5}, 7};
  const Box box{{{1, 3}, {1, 4}}};
  std::vector<std::byte> buffer(BoxBytes(array, box));
  ASSERT_EQ(buffer.size(), 3u);
  FillBox(array, box, absl::MakeSpan(buffer));
  buffer[2] ^= std::byte{0x10};  // position 5: element [2, 3]
  const std::optional<OracleMismatch> wrong = CheckBox(array, box, buffer);
  ASSERT_TRUE(wrong.has_value());
  EXPECT_EQ(wrong->index, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(wrong->found.low, wrong->expected.low ^ 1);
}

TEST(ElementOracle, IgnoresPadding) {
  const OracleArray array{ArrayKey("w"), planner::ElementType::kU4, {3}, 0};
  const Box box = Box::Whole(array.shape);
  std::vector<std::byte> buffer(BoxBytes(array, box));
  FillBox(array, box, absl::MakeSpan(buffer));
  buffer[1] ^= std::byte{0x10};
  EXPECT_FALSE(CheckBox(array, box, buffer).has_value());
}

}  // namespace
}  // namespace remesh::testing
