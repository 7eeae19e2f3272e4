// SPDX-License-Identifier: Apache-2.0
// No bytes but those of a program come back as anything unsafe, and errors name the field.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/plan/host_program.h"
#include "planner/schedule/windows.h"
#include "proto/program/program_proto.h"
#include "tests/planner/planned_programs.h"

namespace remesh::planner {

using proto::NamedProgram;
using proto::ReadProgram;

namespace {

using testing::Random;
using testing::Uniform;

// Whatever a program says after its bytes were changed: nothing beyond what it speaks of.
void ExpectSafe(const NamedProgram& named) {
  int transfers = 0;
  ForEachTransfer(named.program, [&](const Transfer& t) {
    EXPECT_LT(t.array, std::ssize(named.arrays));
    EXPECT_LT(t.from_device, std::ssize(named.devices));
    EXPECT_LT(t.to_device, std::ssize(named.devices));
    EXPECT_LT(t.window, named.program.windows);
    EXPECT_TRUE(Box::Whole(named.arrays[t.array].shape).Contains(t.box));
    EXPECT_GT(t.box.element_count(), 0);
    EXPECT_NE(t.to_space, Space::kSource);
    return ++transfers < 10000;
  });
  int stretches = 0;
  ForEachStretch(named.program, [&](const Stretch& s) {
    EXPECT_LT(s.lo, s.hi);
    EXPECT_LE(s.hi, named.program.RunsOfTape(s.tape).bits);
    EXPECT_LT(s.window, named.program.windows);
    return ++stretches < 10000;
  });
}

TEST(ProgramWireTest, ForgedProgramsAreRefusedOrSafe) {
  Random random(3);
  int refused = 0;
  int safe = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto planned = PlanOf(seed, {.arrays_max = 3, .elements_max = 100});
    if (!planned) continue;
    const std::string bytes =
        OverTheWire(proto::ProgramOfHost(planned->plan, planned->request.canonical,
                                         planned->request.binding, 0),
                    size_t{1} << 20)
            .SerializeAsString();
    for (int i = 0; i < 300; ++i) {
      std::string changed = bytes;
      for (int64_t n = Uniform(random, 1, 3); n > 0; --n) {
        changed[Uniform(random, 0, changed.size() - 1)] = static_cast<char>(
            Uniform(random, 0, 2) == 0 ? Uniform(random, 0, 3) : Uniform(random, 0, 255));
      }
      const google::protobuf::LogSilencer silencer;  // of texts that are none
      v1::HostProgram message;
      if (!message.ParsePartialFromString(changed)) continue;
      const auto read = ReadProgram(message);
      ++(read.ok() ? safe : refused);
      if (read.ok()) ExpectSafe(*read);
      EXPECT_EQ(GetErrorInfo(read.status()).metadata.count("field"), read.ok() ? 0u : 1u);
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(safe, 1000);
}

// A program of one array of 8 elements, moved whole.
NamedProgram Small() {
  NamedProgram named{.fingerprint = "print",
                     .program = {.windows = 1},
                     .arrays = {{"w", {8}, 16}},
                     .devices = {70, 80}};
  HostProgram& program = named.program;
  program.geometry.classes = {
      {.arrays = {0}, .element_bits = 16, .atom_count = 1, .cuts = {}, .boxes = {Box{{{0, 8}}}}}};
  program.atoms = {0};
  program.tape_begin = {0, 1};
  program.tape_numbers = {0};
  program.segments = {{0, 0, 128}};
  program.segment_numbers = {0};
  program.moves = {{.to_device = 1, .hi = 128}};
  return named;
}

TEST(ProgramWireTest, NamesAreSentByTheirDifferences) {
  NamedProgram named = Small();
  named.arrays.clear();
  named.program.geometry.classes[0].arrays.clear();
  // The last two differ in the second byte of a letter, then in its first.
  const std::vector<std::string> names = {"layers.9.q", "layers.10.q", "layers.10.q", "q",
                                          "",           "layers.10",   "aa",          "aaa",
                                          "w\xC3\xA9",  "w\xC3\xA8x",  "w\xC4\xA8x"};
  for (const std::string& name : names) {
    named.program.geometry.classes[0].arrays.push_back(static_cast<int32_t>(named.arrays.size()));
    named.arrays.push_back({name, {8}, 16});
  }
  const v1::HostProgram message = OverTheWire(named, size_t{1} << 20);
  EXPECT_EQ(message.names().middles(1), "10");
  EXPECT_EQ(message.names().middles(2), "");
  EXPECT_EQ(message.names().middles(9), "\xC3\xA8x");
  const auto read = ReadProgram(message);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == named);
}

template <typename Change>
std::string FieldRefused(Change change) {
  v1::HostProgram message = OverTheWire(Small(), size_t{1} << 20);
  EXPECT_TRUE(ReadProgram(message).ok());
  change(message);
  return GetErrorInfo(ReadProgram(message).status()).metadata["field"];
}

#define REFUSED(field, ...) EXPECT_EQ(FieldRefused([](v1::HostProgram& m) { __VA_ARGS__; }), field)

TEST(ProgramWireTest, ErrorsNameTheField) {
  REFUSED("schedule.parts", m.mutable_schedule()->set_parts(0));
  REFUSED("schedule.windows", m.mutable_schedule()->set_windows(2));
  REFUSED("schedule.windows", m.mutable_schedule()->set_hops(kWindowsMax));
  REFUSED("schedule.slack_bits", m.mutable_schedule()->set_slack_bits(INT64_MAX));
  REFUSED("names.prefix_bytes[0]", m.mutable_names()->set_prefix_bytes(0, 1));
  REFUSED("names.suffix_bytes[0]", m.mutable_names()->set_suffix_bytes(0, -1));
  REFUSED("classes.arrays", m.mutable_classes()->add_arrays(1));
  REFUSED("classes.element_bits[0]", m.mutable_classes()->set_element_bits(0, 0));
  REFUSED("classes.shapes[0].shape", m.mutable_classes()->set_shapes(0, INT64_MAX));
  REFUSED("classes.atoms[0]", m.mutable_classes()->set_atoms(0, INT32_MAX - 1));
  REFUSED("classes.atom_begins[0]", m.mutable_classes()->set_atom_begins(0, 8));
  REFUSED("classes.atom_extents[0]", m.mutable_classes()->set_atom_extents(0, 9));
  REFUSED("tapes.atom_steps[0]", m.mutable_tapes()->set_atom_steps(0, 1));
  REFUSED("tapes.atoms[0]", m.mutable_tapes()->set_atoms(0, 2));
  REFUSED("segments.tape_steps[0]", m.mutable_segments()->set_tape_steps(0, 1));
  REFUSED("segments.sizes[0]", m.mutable_segments()->set_sizes(0, 129));
  REFUSED("moves.hops[0]", m.mutable_moves()->set_hops(0, 1));
  REFUSED("moves.to_devices[0]", m.mutable_moves()->set_to_devices(0, 2));
  REFUSED("moves.to_spaces[0]", m.mutable_moves()->set_to_spaces(0, v1::SPACE_SOURCE));
  REFUSED("moves.round_steps[0]", m.mutable_moves()->set_round_steps(0, 1));
  REFUSED("moves.segment_steps[0]", m.mutable_moves()->set_segment_steps(0, -1));
  REFUSED("moves.stripe_sizes[0]", m.mutable_moves()->add_stripe_steps(0);
          m.mutable_moves()->add_stripe_begins(64); m.mutable_moves()->add_stripe_sizes(65));
}

// A row of three bytes may stand for as long a name as the one before had.
TEST(ProgramWireTest, NamesDoNotMultiplyInMemory) {
  v1::HostProgram message = OverTheWire(Small(), size_t{1} << 20);
  message.mutable_names()->set_middles(0, std::string(1 << 20, 'n'));
  for (int i = 0; i < 100; ++i) {
    message.mutable_names()->add_prefix_bytes(1 << 20);
    message.mutable_names()->add_middles("");
    message.mutable_names()->add_suffix_bytes(0);
  }
  message.mutable_classes()->set_arrays(0, 101);
  EXPECT_EQ(GetErrorInfo(ReadProgram(message).status()).metadata["field"], "names.middles");
}

TEST(ProgramWireTest, LongSchedulesOfManyMovesAreRefused) {
  NamedProgram named = Small();
  named.program.schedule.parts = kWindowsMax;
  named.program.windows = kWindowsMax;
  EXPECT_TRUE(ReadProgram(OverTheWire(named, size_t{1} << 20)).ok());
  named.program.moves.resize(1025, named.program.moves[0]);
  EXPECT_EQ(
      GetErrorInfo(ReadProgram(OverTheWire(named, size_t{1} << 20)).status()).metadata["field"],
      "moves.hops");
}

constexpr int32_t kEmptyParts = 100;

// The first 400 bytes of the last atom, four a part, where all below 500 are rounded to none: no
// part gives a box, and the atoms of the tape are passed for each all the same.
NamedProgram OfEmptyParts(int32_t atoms, size_t moves) {
  constexpr int64_t kAtomBytes = 1000;
  NamedProgram named = Small();
  HostProgram& program = named.program;
  named.arrays[0] = {"w", {atoms * kAtomBytes}, 8};
  ArrayClass& one = program.geometry.classes[0];
  one = {.arrays = {0}, .element_bits = 8, .atom_count = atoms, .cuts = {}, .boxes = {}};
  program.atoms.clear();
  for (int32_t c = 0; c < atoms; ++c) {
    one.boxes.push_back(Box{{{c * kAtomBytes, (c + 1) * kAtomBytes}}});
    program.atoms.push_back(c);
  }
  program.tape_begin = {0, atoms};
  program.schedule.slack_bits = 8 * kAtomBytes / 2;
  program.schedule.parts = kEmptyParts;
  program.windows = kEmptyParts;
  const int64_t begin = 8 * kAtomBytes * (atoms - 1);
  program.segments = {{0, begin, begin + 8 * 400}};
  program.moves.assign(moves, program.moves[0]);
  for (Move& move : program.moves) move.hi = 8 * 400;
  return named;
}

TEST(ProgramWireTest, WalksOverTapesThatGiveNoBoxAreBounded) {
  constexpr int32_t kAtoms = 10'000;
  constexpr size_t kMovesMax = kProgramAtomsPassedMax / (kAtoms * kEmptyParts);
  const auto few = ReadProgram(OverTheWire(OfEmptyParts(kAtoms, 1), size_t{1} << 20));
  ASSERT_TRUE(few.ok()) << few.status();
  ForEachTransfer(few->program, [](const Transfer&) {
    ADD_FAILURE() << "every part rounds to nothing";
    return true;
  });
  const auto most = OverTheWire(OfEmptyParts(kAtoms, kMovesMax), size_t{1} << 20);
  EXPECT_TRUE(ReadProgram(most).ok());
  const auto more = OverTheWire(OfEmptyParts(kAtoms, kMovesMax + 1), size_t{1} << 20);
  EXPECT_EQ(GetErrorInfo(ReadProgram(more).status()).metadata["field"],
            absl::StrCat("moves.segment_steps[", kMovesMax, "]"));
}

}  // namespace
}  // namespace remesh::planner
