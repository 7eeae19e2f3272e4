// SPDX-License-Identifier: Apache-2.0
// A host's program comes back from the wire as the same program, its expansion is the host's part
// of the plan, and no other bytes come back as anything unsafe.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/make_plan.h"
#include "planner/plan/host_exchanges.h"
#include "planner/plan/host_program.h"
#include "planner/plan/plan_rep.h"
#include "planner/schedule/timeline.h"
#include "planner/schedule/transit.h"
#include "planner/schedule/windows.h"
#include "planner/values/packing.h"
#include "proto/program/program_proto.h"
#include "tests/testing/random_request.h"

namespace remesh::planner {

using proto::NamedProgram;
using proto::ReadProgram;

namespace {

using testing::Random;
using testing::RandomRequest;
using testing::RandomRequestOptions;
using testing::Uniform;

struct Planned {
  CanonicalizedRequest request;
  Plan plan;
};

// The request of `seed` with its plan, or nullopt where there is none.
std::optional<Planned> PlanOf(uint64_t seed, const RandomRequestOptions& options = {}) {
  auto request = Canonicalize(RandomRequest(seed, options));
  EXPECT_TRUE(request.ok()) << request.status();
  auto plan = MakePlan(request->canonical);
  if (!plan.ok()) return std::nullopt;
  return Planned{*std::move(request), *std::move(plan)};
}

// The program as it comes out of the wire's bytes, merged from chunks of about `chunk_bytes`.
v1::HostProgram OverTheWire(const NamedProgram& named, size_t chunk_bytes) {
  v1::HostProgram merged;
  proto::WriteProgram(
      named,
      [&](const v1::HostProgram& chunk) {
        v1::HostProgram arrived;
        EXPECT_TRUE(arrived.ParseFromString(chunk.SerializeAsString()));
        EXPECT_LE(chunk.ByteSizeLong(), chunk_bytes + 1000);
        merged.MergeFrom(arrived);
        return true;
      },
      chunk_bytes);
  return merged;
}

// What a program says of each transfer, in the caller's names.
using Told = std::tuple<int32_t, std::string, Box, int64_t, int64_t, Space, Space, int32_t>;

std::vector<Told> Expanded(const NamedProgram& named) {
  std::vector<Told> transfers;
  ForEachTransfer(named.program, [&](const Transfer& t) {
    transfers.emplace_back(t.window, named.arrays[t.array].name, t.box,
                           named.devices[t.from_device], named.devices[t.to_device], t.from_space,
                           t.to_space, t.tape);
    return true;
  });
  return transfers;
}

std::vector<Told> Expected(const Planned& planned, int32_t host) {
  const Binding& binding = planned.request.binding;
  std::vector<Told> transfers;
  ForEachTransferOfHost(planned.plan, host, [&](const Transfer& t) {
    transfers.emplace_back(t.window, binding.array_names[t.array], t.box,
                           binding.device_ids[t.from_device], binding.device_ids[t.to_device],
                           t.from_space, t.to_space, t.tape);
  });
  return transfers;
}

TEST(ProgramLawTest, TheWireKeepsEveryTransferOfTheHost) {
  int plans = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto planned = PlanOf(seed);
    if (!planned) continue;
    ++plans;
    const CanonicalRequest& request = planned->request.canonical;
    const auto hosts = static_cast<int32_t>(request.request.topology.hosts.size());
    for (int32_t h = 0; h < hosts; ++h) {
      const NamedProgram named =
          proto::ProgramOfHost(planned->plan, request, planned->request.binding, h);
      const auto read = ReadProgram(OverTheWire(named, seed % 3 == 0 ? 200 : size_t{1} << 20));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_TRUE(*read == named);
      EXPECT_EQ(Expanded(*read), Expected(*planned, h));
    }
  }
  EXPECT_GT(plans, 400);
}

// A host reaches every device that its program names if it knows the hosts it exchanges with.
TEST(ProgramLawTest, AHostExchangesWithTheHostsOfTheDevicesOfItsProgramAndNoOthers) {
  int64_t others = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto planned = PlanOf(seed);
    if (!planned) continue;
    const std::vector<std::vector<int32_t>> exchanges = HostExchanges(planned->plan);
    const std::vector<int32_t>& host_of = planned->plan.rep().host_of;
    for (int32_t host = 0; host < std::ssize(exchanges); ++host) {
      std::set<int32_t> named;
      for (const Move& move : ProgramOfHost(planned->plan, host).moves) {
        named.insert({host_of[move.from_device], host_of[move.to_device]});
      }
      named.erase(host);
      EXPECT_EQ(exchanges[host], std::vector<int32_t>(named.begin(), named.end()));
      others += std::ssize(named);
    }
  }
  EXPECT_GT(others, 500);
}

// The elements of a program's stretches, told as its transfers are.
std::vector<Told> OfStretches(const NamedProgram& named) {
  std::vector<Told> transfers;
  ForEachStretch(named.program, [&](const Stretch& s) {
    const TapeRuns tape = named.program.RunsOfTape(s.tape);
    named.program.geometry.ForEachBox(tape, s.lo, s.hi, 0, [&](int32_t array, const Box& box) {
      transfers.emplace_back(s.window, named.arrays[array].name, box, named.devices[s.from_device],
                             named.devices[s.to_device], s.from_space, s.to_space,
                             named.program.tape_numbers[s.tape]);
    });
    return true;
  });
  return transfers;
}

// How many elements go each way in each window.
std::map<std::tuple<int32_t, std::string, int64_t, int64_t, Space, Space, int32_t>, int64_t>
Elements(const std::vector<Told>& transfers) {
  std::map<std::tuple<int32_t, std::string, int64_t, int64_t, Space, Space, int32_t>, int64_t> sum;
  for (const auto& [window, array, box, from, to, from_space, to_space, tape] : transfers)
    sum[{window, array, from, to, from_space, to_space, tape}] += box.element_count();
  return sum;
}

// A device passes on only stretches that it got, in an earlier window, from whoever made their
// digests or got them so; and both ends of a pair speak of the same.
// Regression: each program was made by a look at all moves.
TEST(ProgramLawTest, ThePlansIndexNamesEachMoveToItsHostsOnly) {
  int64_t stripes = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto planned = PlanOf(seed);
    if (!planned) continue;
    const PlanRep& rep = planned->plan.rep();
    const ProgramIndex index(planned->plan);
    std::multiset<std::pair<int32_t, int32_t>> named, expected;
    for (const int32_t host : std::set<int32_t>(rep.host_of.begin(), rep.host_of.end())) {
      for (const int32_t move : index.MovesOf(host)) named.insert({move, host});
    }
    for (int32_t m = 0; m < std::ssize(rep.moves); ++m) {
      const int32_t from = rep.host_of[rep.moves[m].from_device];
      const int32_t to = rep.host_of[rep.moves[m].to_device];
      expected.insert({m, from});
      if (to != from) expected.insert({m, to});
    }
    EXPECT_EQ(named, expected);
    int64_t of_segments = 0;
    for (int32_t s = 0; s < std::ssize(rep.segment_tape); ++s) {
      for (const int32_t stripe : index.StripesOf(s)) {
        EXPECT_EQ(rep.moves[rep.stripes[stripe].move].segment, s);
        ++of_segments;
      }
    }
    EXPECT_EQ(of_segments, std::ssize(rep.stripes));
    stripes += of_segments;
  }
  EXPECT_GT(stripes, 100);
}

TEST(ProgramLawTest, StretchesAreNeverCutOnTheirWay) {
  using Place = std::tuple<int32_t, int64_t, int64_t, int64_t, Space>;  // of a stretch
  using Sent = std::tuple<int32_t, int32_t, int64_t, int64_t>;          // window, tape, range
  int64_t passed_on = 0, cut = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto planned = PlanOf(seed);
    if (!planned) continue;
    const CanonicalRequest& request = planned->request.canonical;
    std::map<std::pair<int64_t, int64_t>, std::vector<std::vector<Sent>>>
        told;  // of a pair, by each end
    for (int32_t h = 0; h < std::ssize(request.request.topology.hosts); ++h) {
      const NamedProgram named =
          proto::ProgramOfHost(planned->plan, request, planned->request.binding, h);
      EXPECT_EQ(Elements(OfStretches(named)), Elements(Expanded(named)));
      cut += std::ssize(named.program.cuts);
      std::map<Place, int32_t> brought;  // in which window
      std::map<std::pair<int64_t, int64_t>, std::vector<Sent>> here;
      ForEachStretch(named.program, [&](const Stretch& s) {
        const int32_t tape = named.program.tape_numbers[s.tape];
        const int64_t from = named.devices[s.from_device], to = named.devices[s.to_device];
        here[{from, to}].push_back({s.window, tape, s.lo, s.hi});
        const auto& mine = request.request.topology.hosts[h].device_ids;
        const auto is_here = [&](int64_t device) {
          return std::any_of(mine.begin(), mine.end(), [&](int64_t id) {
            return planned->request.binding.device_ids[id] == device;
          });
        };
        if (s.from_space != Space::kSource && is_here(from)) {
          const auto earlier = brought.find({tape, s.lo, s.hi, from, s.from_space});
          EXPECT_TRUE(earlier != brought.end() && earlier->second < s.window);
          ++passed_on;
        }
        EXPECT_TRUE(brought.try_emplace({tape, s.lo, s.hi, to, s.to_space}, s.window).second);
        return true;
      });
      for (auto& [pair, sent] : here) told[pair].push_back(std::move(sent));
    }
    for (const auto& [pair, ends] : told) {
      for (const auto& end : ends) EXPECT_EQ(end, ends.front());
    }
  }
  EXPECT_GT(passed_on, 1000);
  EXPECT_GT(cut, 100);
}

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

TEST(ProgramLawTest, ForgedProgramsAreRefusedOrSafe) {
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

TEST(ProgramLawTest, NamesAreToldByTheirDifferences) {
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

TEST(ProgramLawTest, ErrorsNameTheField) {
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
TEST(ProgramLawTest, NamesDoNotMultiplyInMemory) {
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

TEST(ProgramLawTest, LongSchedulesOfManyMovesAreRefused) {
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

TEST(ProgramLawTest, WalksOverTapesThatGiveNoBoxAreBounded) {
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

// What one device's host lays out for it of a plan, from the stretches of its program alone.
class LaidOut {
 public:
  void Exchange(const Stretch& s) {
    messages_[{s.window, s.from_device, s.to_device}] += TravellingBytes(s.hi - s.lo);
  }
  void Stage(const Stretch& s) {
    const int64_t end = s.staged_at + StoredBytes(s.hi - s.lo);
    staged_[{s.tape, s.lo}] = {s.window, s.window, s.staged_at, end};
  }
  void PassOn(const Stretch& s) {
    Stay& stay = staged_.at({s.tape, s.lo});
    stay.last = std::max(stay.last, s.window);
  }

  // A host starts window w when its part of w - 2 is done: until then all must stay.
  void ExpectNoneOverwritten() const {
    for (auto a = staged_.begin(); a != staged_.end(); ++a) {
      for (auto b = std::next(a); b != staged_.end(); ++b) {
        const Stay &one = a->second, &other = b->second;
        const bool meet = one.first < other.last + 2 && other.first < one.last + 2;
        EXPECT_FALSE(meet && one.begin < other.end && other.begin < one.end)
            << one.begin << " and " << other.begin << " in window " << other.first;
      }
    }
  }

  int64_t bytes() const {
    std::map<int32_t, int64_t> of_window;
    for (const auto& [message, travelling] : messages_)
      of_window[std::get<0>(message)] += MessageBytes(travelling);
    TransitArea transit;
    for (const auto& [window, bytes] : of_window) transit.Fit(window, bytes);
    int64_t area = 0;
    for (const auto& [place, stay] : staged_) area = std::max(area, stay.end);
    return transit.bytes() + area;
  }
  int64_t staged() const { return std::ssize(staged_); }

 private:
  struct Stay {
    int32_t first = 0;
    int32_t last = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::map<std::tuple<int32_t, int32_t, int32_t>, int64_t> messages_;  // window, from, to
  std::map<std::pair<int32_t, int64_t>, Stay> staged_;                 // tape, begin
};

std::map<int32_t, LaidOut> LaidOutOn(const Plan& plan, int32_t host,
                                     const std::vector<int32_t>& host_of) {
  std::map<int32_t, LaidOut> devices;
  ForEachStretch(ProgramOfHost(plan, host), [&](const Stretch& s) {
    const bool from = host_of[s.from_device] == host, to = host_of[s.to_device] == host;
    if (from && !to) devices[s.from_device].Exchange(s);
    if (to && !from) devices[s.to_device].Exchange(s);
    if (to && s.to_space == Space::kStaging) devices[s.to_device].Stage(s);
    if (from && s.from_space == Space::kStaging) devices[s.from_device].PassOn(s);
    return true;
  });
  return devices;
}

// Bytes of all shards, before and after, of each device.
std::vector<int64_t> ShardBytes(const ReshardRequest& request, size_t devices) {
  std::vector<int64_t> bytes(devices, 0);
  for (const ArraySpec& array : request.arrays) {
    for (const Placement* placement : {&array.source, &array.target}) {
      for (const Tile& tile : placement->layout->tiles) {
        for (const Box& box : tile.boxes) {
          const int64_t bits = box.element_count() * BitWidth(array.element_type);
          for (const int32_t p : tile.positions)
            bytes[(*placement->devices)[p]] += StoredBytes(bits);
        }
      }
    }
  }
  return bytes;
}

TEST(ProgramLawTest, WhatHostsLayOutFitsIntoThePeak) {
  int64_t staged = 0, exact = 0, devices = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto planned = PlanOf(seed, {.lost_devices = false});
    if (!planned) continue;
    const ReshardRequest& request = planned->request.canonical.request;
    std::vector<int32_t> host_of;
    for (size_t h = 0; h < request.topology.hosts.size(); ++h) {
      host_of.insert(host_of.end(), request.topology.hosts[h].device_ids.size(),
                     static_cast<int32_t>(h));
    }
    const std::vector<int64_t> shards = ShardBytes(request, host_of.size());
    for (int32_t h = 0; h < std::ssize(request.topology.hosts); ++h) {
      for (const auto& [device, laid_out] : LaidOutOn(planned->plan, h, host_of)) {
        laid_out.ExpectNoneOverwritten();
        const int64_t taken = shards[device] + laid_out.bytes();
        const int64_t peak = planned->plan.peak_bytes()[device];
        EXPECT_LE(taken, peak) << "device " << device;
        staged += laid_out.staged();
        exact += taken * 10 >= peak * 9 ? 1 : 0;
        ++devices;
      }
    }
  }
  EXPECT_GT(staged, 1000);
  EXPECT_GT(exact, devices / 3) << "of " << devices;
}

}  // namespace
}  // namespace remesh::planner
