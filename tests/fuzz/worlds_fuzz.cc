// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/target.h"
#include "tests/fuzz/worlds_world.h"

// Processes and operators in any order, honest or not.
REMESH_FUZZ_PROTO(remesh::fuzz::WorldsInput, input) {
  remesh::fuzz::WorldsWorld world;
  for (int i = 0; i < input.steps_size() && i < 256; ++i) world.Do(input.steps(i));
  world.Finish();
}
