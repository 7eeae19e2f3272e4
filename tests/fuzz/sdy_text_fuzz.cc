// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/sdy_text.h"
#include "tests/fuzz/sharding_laws.h"

REMESH_FUZZ_TEXT(text) {
  using namespace remesh;
  const auto sharding = planner::ParseSdySharding(text);
  if (!sharding.ok()) return fuzz::CheckRefusal(sharding.status());
  const auto again = planner::ParseSdySharding(planner::PrintSdySharding(*sharding));
  REMESH_CHECK(again.ok() && *again == *sharding);
  fuzz::CheckPlaces(*sharding);
}
