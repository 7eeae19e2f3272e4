// SPDX-License-Identifier: Apache-2.0
//
// Damaged specs, as text and as bytes, are either accepted or refused as INVALID_ARGUMENT.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "proto/convert/plan_spec.h"
#include "proto/text/text.h"

namespace remesh::proto {
namespace {

constexpr int kRounds = 3000;

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `text` with a few bytes changed, removed, repeated or moved.
std::string Damaged(std::string text, std::mt19937_64& random) {
  constexpr char kAlphabet[] = "{}[]:,\"'&*-#|>!%@`\\ \n\t0123456789eE.+xNa\xc3\xff\x00<=T()";
  const auto at = [&] { return random() % text.size(); };
  for (int changes = 1 + static_cast<int>(random() % 4); changes > 0 && text.size() > 1;
       --changes) {
    const size_t from = at(), count = 1 + random() % 12;
    switch (random() % 5) {
      case 0:
        text[from] = kAlphabet[random() % (sizeof(kAlphabet) - 1)];
        break;
      case 1:
        text.erase(from, count);
        break;
      case 2:
        text.insert(at(), text.substr(from, count));
        break;
      case 3:
        text.insert(from, 1, kAlphabet[random() % (sizeof(kAlphabet) - 1)]);
        break;
      default:
        text[from] = static_cast<char>(random());
    }
  }
  return text;
}

// Counts of the outcomes of damaged specs. A test that sees only one outcome does not test the
// others.
struct Outcomes {
  int unreadable = 0;
  int refused = 0;
  int taken = 0;

  void Count(const v1::PlanSpec& spec) {
    const auto request = ToReshardRequest(spec, nullptr);
    if (request.ok()) {
      ++taken;
    } else {
      EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument) << request.status();
      ++refused;
    }
  }

  void ExpectAllKinds() const {
    EXPECT_GT(unreadable, kRounds / 100);
    EXPECT_GT(refused, kRounds / 100);
    EXPECT_GT(taken, kRounds / 300);
  }
};

TEST(DamageTest, Texts) {
  std::mt19937_64 random(20261121);
  for (const char* path :
       {"client/testdata/example_spec.json", "client/testdata/example_spec.yaml"}) {
    const std::string text = ReadAll(path);
    ASSERT_FALSE(text.empty()) << path;
    Outcomes outcomes;
    for (int i = 0; i < kRounds; ++i) {
      v1::PlanSpec spec;
      const absl::Status status = ParseText(Damaged(text, random), spec);
      if (status.ok()) {
        outcomes.Count(spec);
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
        ++outcomes.unreadable;
      }
    }
    outcomes.ExpectAllKinds();
  }
}

TEST(DamageTest, Bytes) {
  google::protobuf::LogSilencer silencer;  // of strings that are not UTF-8
  std::mt19937_64 random(20261122);
  v1::PlanSpec good;
  ASSERT_TRUE(ParseText(ReadAll("client/testdata/example_spec.json"), good).ok());
  good.add_arrays()->CopyFrom(good.arrays(0));
  good.mutable_arrays(1)->set_name("v");
  v1::DTensorSharding& dtensor = *good.mutable_arrays(1)->mutable_source()->mutable_dtensor();
  dtensor.add_mesh_shape(4);
  dtensor.add_placements()->mutable_strided_shard()->set_split_factor(2);
  good.mutable_arrays(1)->mutable_source()->mutable_devices()->set_ref("all");
  v1::Box& box =
      *good.mutable_arrays(1)->mutable_target()->mutable_boxes()->add_devices()->add_boxes();
  box.add_lo(0);
  box.add_lo(1);
  box.add_hi(8);
  box.add_hi(8);
  ASSERT_TRUE(ToReshardRequest(good, nullptr).ok()) << ToReshardRequest(good, nullptr).status();
  const std::string bytes = good.SerializeAsString();
  Outcomes outcomes;
  for (int i = 0; i < kRounds; ++i) {
    v1::PlanSpec spec;
    if (spec.ParseFromString(Damaged(bytes, random))) {
      outcomes.Count(spec);
    } else {
      ++outcomes.unreadable;
    }
  }
  outcomes.ExpectAllKinds();
}

}  // namespace
}  // namespace remesh::proto
