// SPDX-License-Identifier: Apache-2.0
#include "proto/sharding/convert_sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "planner/sharding/hlo_text.h"

namespace remesh::proto {
namespace {

using ::testing::HasSubstr;

std::string Error(const std::string& bytes) {
  const auto sharding = OpShardingFromBytes(bytes);
  return sharding.ok() ? "" : std::string(sharding.status().message());
}

std::string Error(const xla::OpSharding& proto) { return Error(proto.SerializeAsString()); }

xla::OpSharding Tiles(std::vector<int64_t> dims, std::vector<int64_t> devices) {
  xla::OpSharding proto;
  proto.set_type(xla::OpSharding::OTHER);
  proto.mutable_tile_assignment_dimensions()->Add(dims.begin(), dims.end());
  proto.mutable_tile_assignment_devices()->Add(devices.begin(), devices.end());
  return proto;
}

// Hex bytes as XLA writes them, and its canonical text.
struct Known {
  const char* hex;
  const char* text;
};

constexpr Known kKnown[] = {
    {"", "{replicated}"},
    {"0802", "{}"},
    {"0801220103", "{maximal device=3}"},
    {"0804", "{manual}"},
    {"0805", "{unknown}"},
    {"0806", "{unreduced}"},
    {"08031a0202024a0104520100", "{devices=[2,2]<=[4]}"},
    {"08031a0202024a02020252020100", "{devices=[2,2]<=[2,2]T(1,0)}"},
    {"08031a020202220400030201", "{devices=[2,2]0,3,2,1}"},
    {"08031a0302010230014a02020252020100",
     "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
    {"08031a03020202420204004a0108520100",
     "{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}"},
    {"08031a01024a010252010058016003", "{devices=[2]<=[2] shard_as 3}"},
    {"580160046801", "{replicated shard_like 4}"},
    {"08022a002a0508012201012a0b08031a01024a0102520100",
     "{{replicated}, {maximal device=1}, {devices=[2]<=[2]}}"},
    {"7224120e0a050a016110020a050a016210041a040a0010011a0c0a0808011204080110021001",
     "{mesh['a'=2,'b'=4], [{'a'}, {'b':(1)2}]}"},
    {"722412180a050a016110020a050a016210041a080a020402120201001a040a0010011a021001",
     "{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {}]}"},
    {"722212180a050a016110020a050a01621004120807060504030201001a040a0010011a00",
     "{mesh['a'=2,'b'=4], device_ids=(7,6,5,4,3,2,1,0), [{'a'}, {?}]}"},
    {"7216120e0a050a016110020a050a016210043a003a020801", "{mesh['a'=2,'b'=4], manual}"},
    {"72051203120103", "{maximal_mesh[device_id=3]}"},
};

TEST(ConvertShardingTest, KnownBytesAndTextsAreTheSame) {
  for (const Known& known : kKnown) {
    const std::string bytes(absl::HexStringToBytes(known.hex));
    const auto from_bytes = OpShardingFromBytes(bytes);
    const auto from_text = planner::ParseHloSharding(known.text);
    ASSERT_TRUE(from_bytes.ok()) << known.text << from_bytes.status();
    ASSERT_TRUE(from_text.ok()) << from_text.status();
    EXPECT_EQ(*from_bytes, *from_text) << known.text;
    EXPECT_EQ(planner::PrintHloSharding(*from_bytes), known.text);
    EXPECT_EQ(absl::BytesToHexString(OpShardingToBytes(*from_text)), known.hex) << known.text;
  }
}

TEST(ConvertShardingTest, ListsAndIotasAreEqual) {
  const auto list = FromProto(Tiles({2, 2}, {0, 2, 1, 3}));
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(*list, *planner::ParseHloSharding("{devices=[2,2]<=[2,2]T(1,0)}"));
}

TEST(ConvertShardingTest, ReductionTravelsInMetadata) {
  xla::OpSharding proto;
  proto.set_type(xla::OpSharding::UNREDUCED);
  proto.add_metadata()->set_op_type("sdy::reduction_op");
  proto.mutable_metadata(0)->set_op_name("MAX");
  proto.add_metadata()->set_op_name("layer");
  const auto sharding = FromProto(proto);
  ASSERT_TRUE(sharding.ok());
  EXPECT_EQ(std::get<planner::Unreduced>(sharding->form).reduction, planner::ReductionOp::kMax);
  EXPECT_EQ(sharding->metadata.size(), 1u);
  EXPECT_EQ(ToProto(*sharding).SerializeAsString(), proto.SerializeAsString());
  proto.mutable_metadata(0)->set_op_name("PRODUCT");
  EXPECT_THAT(Error(proto), HasSubstr("PRODUCT"));
}

TEST(ConvertShardingTest, UndecodableBytesAreNamed) {
  const auto sharding = OpShardingFromBytes("\x08\x03\x1a\xff");
  ASSERT_FALSE(sharding.ok());
  const ErrorInfo info = GetErrorInfo(sharding.status());
  EXPECT_EQ(info.metadata.at("field"), "op_sharding");
  EXPECT_EQ(info.metadata.at("value"), "\\x08\\x03\\x1a\\xff");
}

TEST(ConvertShardingTest, BadShardingsAreRefused) {
  EXPECT_THAT(Error(Tiles({2, 2}, {0, 1, 2})),
              HasSubstr("does not match the tile assignment dimensions product"));
  EXPECT_THAT(Error(Tiles({2, 2}, {0, 1, 2, 2})),
              HasSubstr("device 2 is not unique in tile assignment"));
  EXPECT_THAT(Error(Tiles({2, 2}, {0, 1, 2, -1})), HasSubstr("device -1 is negative"));
  EXPECT_THAT(Error(Tiles({}, {})), HasSubstr("including dimensions"));
  EXPECT_THAT(Error(Tiles({0}, {})), HasSubstr("must be >= 1"));
  EXPECT_THAT(Error(Tiles({int64_t{1} << 62, 4}, {0})), HasSubstr("more than"));
  xla::OpSharding proto = Tiles({1, 4}, {0, 1, 2, 3});
  proto.add_last_tile_dims(xla::OpSharding::MANUAL);
  proto.set_replicate_on_last_tile_dim(true);
  EXPECT_THAT(Error(proto), HasSubstr("exclude each other"));
  proto.set_replicate_on_last_tile_dim(false);
  proto.set_last_tile_dims(0, xla::OpSharding::TUPLE);
  EXPECT_THAT(Error(proto), HasSubstr("is not a type of subgroup"));
  proto = Tiles({4}, {0, 1, 2, 3});
  proto.set_type(xla::OpSharding::MAXIMAL);
  EXPECT_THAT(Error(proto),
              HasSubstr("Maximal sharding is expected to have single device assignment"));
  proto.set_type(xla::OpSharding::REPLICATED);
  EXPECT_THAT(Error(proto), HasSubstr("should not have any devices assigned"));
  proto.set_type(static_cast<xla::OpSharding::Type>(17));
  EXPECT_THAT(Error(proto), HasSubstr("type 17"));
}

TEST(ConvertShardingTest, BadIotasAreRefused) {
  const auto iota = [](std::vector<int64_t> reshape, std::vector<int32_t> perm) {
    xla::OpSharding proto = Tiles({2, 2}, {});
    proto.mutable_iota_reshape_dims()->Add(reshape.begin(), reshape.end());
    proto.mutable_iota_transpose_perm()->Add(perm.begin(), perm.end());
    return Error(proto);
  };
  EXPECT_EQ(iota({2, 2}, {1, 0}), "");
  EXPECT_THAT(iota({2, 2}, {0, 0}), HasSubstr("repeated"));
  EXPECT_THAT(iota({2, 2}, {0, -1}), HasSubstr("out of range"));
  EXPECT_THAT(iota({2, 2}, {0}), HasSubstr("same rank"));
  EXPECT_THAT(iota({3}, {0}), HasSubstr("the two must match"));
  EXPECT_THAT(iota({}, {0}), HasSubstr("without iota_reshape_dims"));
}

TEST(ConvertShardingTest, TuplesAreFlatAndPlain) {
  xla::OpSharding proto;
  proto.set_type(xla::OpSharding::TUPLE);
  proto.add_tuple_shardings()->set_type(xla::OpSharding::TUPLE);
  EXPECT_THAT(Error(proto), HasSubstr("tuple_shardings[0]"));
  proto.clear_tuple_shardings();
  proto.add_metadata()->set_op_name("x");
  EXPECT_THAT(Error(proto), HasSubstr("Tuple sharding is expected to have no metadata"));
}

TEST(ConvertShardingTest, BadNamedShardingsAreRefused) {
  xla::OpSharding proto;
  xla::NamedShardingProto& named = *proto.mutable_named_sharding();
  auto* axis = named.mutable_mesh()->add_axes();
  axis->set_name("a");
  axis->set_size(8);
  named.add_dim_shardings()->add_axes()->set_mesh_axis_index(1);
  EXPECT_THAT(Error(proto), HasSubstr("out of range"));
  auto* ref = named.mutable_dim_shardings(0)->mutable_axes(0);
  ref->set_mesh_axis_index(0);
  EXPECT_EQ(Error(proto), "");
  ref->mutable_sub_axis_info()->set_pre_size(int64_t{1} << 62);
  ref->mutable_sub_axis_info()->set_size(int64_t{1} << 62);
  EXPECT_THAT(Error(proto), HasSubstr("must divide"));
  ref->mutable_sub_axis_info()->set_pre_size(0);
  EXPECT_THAT(Error(proto), HasSubstr("pre-size"));
  ref->clear_sub_axis_info();
  named.add_manual_axes()->set_mesh_axis_index(0);
  EXPECT_THAT(Error(proto), HasSubstr("used twice"));
  named.clear_manual_axes();
  named.mutable_mesh()->add_device_ids(5);
  EXPECT_THAT(Error(proto), HasSubstr("does not match"));
  named.mutable_mesh()->clear_device_ids();
  axis->set_size(-8);
  EXPECT_FALSE(Error(proto).empty());
  axis->set_size(int64_t{1} << 40);
  EXPECT_FALSE(Error(proto).empty());
}

}  // namespace
}  // namespace remesh::proto
