// SPDX-License-Identifier: Apache-2.0
// Seeded damage to valid texts and bytes: every parser must answer with a status, or with a value
// that prints and parses back equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/sdy_text.h"
#include "planner/sharding/to_layout.h"
#include "proto/sharding/convert_sharding.h"

namespace remesh::planner {

using proto::OpShardingFromBytes;

namespace {

// A setting of the environment, for longer runs than every test run can afford.
int FromEnvironment(const char* name, int fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::atoi(value);
}

// Rounds for each parser, and their seed.
const int kRounds = FromEnvironment("REMESH_FUZZ_ROUNDS", 40'000);
const int kSeed = FromEnvironment("REMESH_FUZZ_SEED", 20261121);

// The given texts or bytes of all vectors.
std::vector<std::string> Seeds(const std::string& key) {
  std::vector<std::string> seeds;
  std::ifstream file("tests/data/hlo_vectors.jsonl");
  for (std::string line; std::getline(file, line);) {
    const std::string value = nlohmann::json::parse(line)[key];
    seeds.push_back(key == "op_sharding" ? absl::HexStringToBytes(value) : value);
  }
  return seeds;
}

constexpr std::array<const char*, 24> kSnippets = {
    "{",  "}",         "[",          "]",      "(",  ")",
    "<=", "T(",        ",",          "0",      "-1", "9223372036854775807",
    "=",  "mesh",      "replicated", "manual", "\"", "'",
    "/*", "unreduced", "maximal",    "\xff",   ":(", "1048576"};

std::string Damaged(std::string text, const std::vector<std::string>& seeds,
                    std::mt19937_64& random) {
  const auto at = [&] { return text.empty() ? 0 : random() % text.size(); };
  for (uint64_t i = 0, edits = 1 + random() % 4; i < edits; ++i) {
    switch (random() % 6) {
      case 0:
        if (!text.empty()) text[at()] = static_cast<char>(random());
        break;
      case 1:
        if (!text.empty()) text.erase(at(), 1 + random() % 8);
        break;
      case 2:
        text.insert(at(), kSnippets[random() % kSnippets.size()]);
        break;
      case 3: {  // copies a part of the text elsewhere
        const std::string part = text.substr(at(), random() % 16);
        text.insert(at(), part);
        break;
      }
      case 4: {  // goes on as another seed
        const std::string& other = seeds[random() % seeds.size()];
        text = text.substr(0, at()) + other.substr(other.empty() ? 0 : random() % other.size());
        break;
      }
      default:
        if (!text.empty()) text[at()] = static_cast<char>('0' + random() % 10);
        break;
    }
  }
  return text;
}

// Runs `check` on damaged seeds; it returns whether the parser took its input. Some must pass and
// some must fail.
void ForDamaged(const std::vector<std::string>& seeds,
                const std::function<bool(const std::string&)>& check) {
  ASSERT_FALSE(seeds.empty());
  std::mt19937_64 random(kSeed);
  int taken = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string input = Damaged(seeds[random() % seeds.size()], seeds, random);
    SCOPED_TRACE(absl::CHexEscape(input));
    taken += check(input) ? 1 : 0;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(taken, kRounds / 400);
  EXPECT_LT(taken, kRounds * 9 / 10);
}

void ExpectNamesField(const absl::Status& status, const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorInfo(status).metadata["field"], field);
}

// XLA keeps tiles of one unreduced subgroup that came with subgroups of one device, though it reads
// their text as {unreduced}; so do we.
bool ReadsBackPlain(const HloSharding& sharding) {
  if (const auto* tuple = std::get_if<Tuple>(&sharding.form)) {
    return std::any_of(tuple->leaves.begin(), tuple->leaves.end(), ReadsBackPlain);
  }
  // Named shardings that are replicated or unreduced throughout print without their mesh.
  if (std::holds_alternative<NamedSharding>(sharding.form)) {
    return PrintHloSharding(sharding).find("mesh[") == std::string::npos;
  }
  const auto* tiled = std::get_if<Tiled>(&sharding.form);
  return tiled != nullptr && tiled->subgroups == Tiled::Subgroups{SubgroupType::kUnreduced} &&
         tiled->tiles.dims().back() == tiled->tiles.size();
}

void ExpectSame(const absl::StatusOr<HloSharding>& again, const HloSharding& sharding) {
  ASSERT_TRUE(again.ok()) << again.status();
  if (ReadsBackPlain(sharding)) return;
  EXPECT_TRUE(*again == sharding) << PrintHloSharding(*again) << "\n" << PrintHloSharding(sharding);
}

// Places small arrays: any answer will do that is no crash.
void Place(const HloSharding& sharding) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{4, 0}, Shape{7, 17, 27}}) {
    for (int32_t count : {1, 8, 24}) {
      const auto layout = ToLayout(sharding, shape, count);
      if (layout.ok()) {
        EXPECT_EQ(layout->device_count, count);
      } else {
        EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
      }
    }
  }
}

TEST(RobustnessTest, HloText) {
  const google::protobuf::LogSilencer quiet;
  ForDamaged(Seeds("given"), [](const std::string& text) {
    const auto sharding = ParseHloSharding(text);
    if (!sharding.ok()) {
      ExpectNamesField(sharding.status(), "hlo_text");
      return false;
    }
    const auto again = ParseHloSharding(PrintHloSharding(*sharding));
    ExpectSame(again, *sharding);
    const auto from_bytes = OpShardingFromBytes(proto::OpShardingToBytes(*sharding));
    if (from_bytes.ok())
      ExpectSame(from_bytes, *sharding);  // but strings that are no UTF-8 make no message
    Place(*sharding);
    return true;
  });
}

TEST(RobustnessTest, OpShardingBytes) {
  ForDamaged(Seeds("op_sharding"), [](const std::string& bytes) {
    const auto sharding = OpShardingFromBytes(bytes);
    if (!sharding.ok()) {
      ExpectNamesField(sharding.status(), "op_sharding");
      return false;
    }
    ExpectSame(OpShardingFromBytes(proto::OpShardingToBytes(*sharding)), *sharding);
    ExpectSame(ParseHloSharding(PrintHloSharding(*sharding)), *sharding);
    Place(*sharding);
    return true;
  });
}

TEST(RobustnessTest, SdyText) {
  const std::vector<std::string> seeds = {
      R"(sdy.mesh @m = <["a"=2,"b"=4]> #sdy.sharding<@m, [{"a"}, {"b", ?}p1]>)",
      R"(#sdy.sharding<@m, [{"b":(2)2}, {}], replicated={"a"}> sdy.mesh @m = <["a"=2,"b"=4], device_ids=[7,6,5,4,3,2,1,0]>)",
      R"(#sdy.sharding<mesh<["a"=8]>, [{"a":(1)2}, {"a":(4)2}], unreduced=max{"a":(2)2}>)",
      R"(sdy.mesh @m = <[], device_ids=[0]> #sdy.sharding<@m, [{}]>)",
  };
  ForDamaged(seeds, [](const std::string& text) {
    const auto sharding = ParseSdySharding(text);
    if (!sharding.ok()) {
      ExpectNamesField(sharding.status(), "sdy_text");
      return false;
    }
    const auto again = ParseSdySharding(PrintSdySharding(*sharding));
    EXPECT_TRUE(again.ok() && *again == *sharding) << again.status();
    Place({*sharding, std::nullopt, {}});
    return true;
  });
}

}  // namespace
}  // namespace remesh::planner
