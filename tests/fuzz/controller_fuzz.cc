// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/controller_world.h"
#include "tests/fuzz/target.h"

// Attach messages, callers' requests, time and crashes in any order.
REMESH_FUZZ_PROTO(remesh::fuzz::ControllerInput, input) {
  remesh::fuzz::ControllerWorld world({});
  REMESH_CHECK(world.Start().ok());
  for (int i = 0; i < input.steps_size() && i < 256; ++i) world.Do(input.steps(i));
}
