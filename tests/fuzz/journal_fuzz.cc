// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/controller_world.h"
#include "tests/fuzz/target.h"

// Whatever is in a journal is refused, or led on from.
REMESH_FUZZ_PROTO(remesh::fuzz::JournalInput, input) {
  using namespace remesh;
  std::map<std::string, std::string> disk;
  for (const fuzz::JournalInput::Record& record : input.records()) {
    disk[record.key()] = record.has_state()       ? record.state().SerializeAsString()
                         : record.has_execution() ? record.execution().SerializeAsString()
                                                  : record.raw();
  }
  fuzz::ControllerWorld world(std::move(disk));
  if (!world.Start().ok()) return;
  for (int i = 0; i < input.steps_size() && i < 64; ++i) world.Do(input.steps(i));
}
