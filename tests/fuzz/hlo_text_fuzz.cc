// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/sharding_laws.h"

REMESH_FUZZ_TEXT(text) {
  using namespace remesh;
  const auto sharding = planner::ParseHloSharding(text);
  if (!sharding.ok()) return fuzz::CheckRefusal(sharding.status());
  fuzz::CheckSame(planner::ParseHloSharding(planner::PrintHloSharding(*sharding)), *sharding);
  // Names that are no UTF-8 make no message.
  const auto from_bytes = proto::OpShardingFromBytes(proto::OpShardingToBytes(*sharding));
  if (from_bytes.ok()) fuzz::CheckSame(from_bytes, *sharding);
  fuzz::CheckPlaces(*sharding);
}
