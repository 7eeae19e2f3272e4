// SPDX-License-Identifier: Apache-2.0
#include "proto/requests/request_memory.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::proto {
namespace {

constexpr uint64_t kMost = uint64_t{1} << 40;

uint64_t MemoryOf(const std::string& bytes, const google::protobuf::Descriptor& message,
                  uint64_t most = kMost) {
  google::protobuf::io::ArrayInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  return MemoryOfParsed(in, message, most);
}

template <typename Message>
void ExpectFits(const std::string& bytes, double most_times) {
  Message message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  const auto taken = static_cast<double>(message.SpaceUsedLong());
  const auto memory = static_cast<double>(MemoryOf(bytes, *Message::descriptor()));
  EXPECT_GE(memory, 0.8 * taken) << "of " << bytes.size() << " bytes";
  EXPECT_LE(memory, most_times * taken) << "of " << bytes.size() << " bytes";
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(RequestMemoryTest, OrdinaryRequestsAreGuessedWell) {
  v1::CreatePlanRequest request;
  for (int i = 0; i < 1000; ++i) {
    v1::ArraySpec& array = *request.mutable_spec()->add_arrays();
    array.set_name(absl::StrCat("layers.", i, ".attention.query.weight"));
    for (const int64_t extent : {4096, 4096}) array.add_shape(extent);
    array.set_element_type("bf16");
    array.mutable_source()->set_hlo_text("{devices=[4,1]<=[4]}");
    array.mutable_source()->mutable_devices()->mutable_range()->set_count(4);
    array.mutable_target()->set_hlo_text("{devices=[1,4]<=[4]}");
    v1::Host& host = *request.mutable_spec()->mutable_topology()->add_hosts();
    host.set_name(absl::StrCat("host-", i));
    for (int d = 0; d < 8; ++d) host.add_device_ids(8 * i + d);
  }
  ExpectFits<v1::CreatePlanRequest>(request.SerializeAsString(), 2);
  for (int i = 0; i < 1000; ++i) {
    v1::Sharding& sharding = (*request.mutable_spec()->mutable_shardings())[absl::StrCat("s", i)];
    sharding.set_hlo_text("{replicated}");
    sharding.mutable_devices()->add_ids(i);
  }
  ExpectFits<v1::CreatePlanRequest>(request.SerializeAsString(), 3);
}

// What a request of a few bytes an item takes: empty messages, empty texts, packed numbers, fields
// that are not known.
TEST(RequestMemoryTest, NothingTakesMoreThanIsGuessed) {
  const std::string arrays = Repeated({"\x22\x00", 2}, 100'000);  // PlanSpec.arrays
  ASSERT_EQ(v1::PlanSpec::descriptor()->FindFieldByNumber(4)->cpp_type(),
            google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE);
  ExpectFits<v1::PlanSpec>(arrays, 2);
  const std::string unknown_texts = Repeated({"\xfa\x7f\x00", 3}, 100'000);
  const std::string unknown_numbers = Repeated({"\xf8\x7f\x00", 3}, 100'000);
  for (const std::string& bytes : {unknown_texts, unknown_numbers}) {
    v1::PlanSpec message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    EXPECT_GE(MemoryOf(bytes, *v1::PlanSpec::descriptor()), message.SpaceUsedLong());
  }
  v1::Host host;
  for (int i = 0; i < 100'000; ++i) host.add_device_ids(0);
  ExpectFits<v1::Host>(host.SerializeAsString(), 2);
}

TEST(RequestMemoryTest, CountsNoFurtherThanAsked) {
  const std::string arrays = Repeated({"\x22\x00", 2}, 100'000);
  const uint64_t memory = MemoryOf(arrays, *v1::PlanSpec::descriptor(), 100'000);
  EXPECT_GT(memory, 100'000u);
  EXPECT_LT(memory, 110'000u);
}

TEST(RequestMemoryTest, BytesOfNoMessageAreReadAsFarAsTheyGo) {
  for (const std::string& bytes :
       {std::string("\x0a\xff\xff\xff\xff\x07", 6), std::string("\x0a\x80", 2),
        std::string("\x07\x07\x07", 3), std::string(200, '\x0b'), std::string(1000, '\xff')}) {
    EXPECT_LT(MemoryOf(bytes, *v1::PlanSpec::descriptor()), 100'000u);
  }
  std::string nested;
  for (int i = 0; i < 1000; ++i) nested = absl::StrCat("\x0a", std::string(1, '\x7f'), nested);
  EXPECT_LT(MemoryOf(nested, *v1::AttachRequest::descriptor()), 1'000'000u);
}

}  // namespace
}  // namespace remesh::proto
