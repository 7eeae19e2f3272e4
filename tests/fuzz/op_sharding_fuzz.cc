// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/sharding_laws.h"

REMESH_FUZZ_PROTO(remesh::xla::OpSharding, input) {
  using namespace remesh;
  const auto sharding = proto::OpShardingFromBytes(input.SerializeAsString());
  if (!sharding.ok()) return fuzz::CheckRefusal(sharding.status());
  fuzz::CheckSame(proto::OpShardingFromBytes(proto::OpShardingToBytes(*sharding)), *sharding);
  fuzz::CheckSame(planner::ParseHloSharding(planner::PrintHloSharding(*sharding)), *sharding);
  fuzz::CheckPlaces(*sharding);
}
