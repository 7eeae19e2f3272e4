// SPDX-License-Identifier: Apache-2.0
// A host's program comes back from the wire as the same program, and its expansion is the host's part
// of the plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "planner/plan/host_exchanges.h"
#include "planner/plan/host_program.h"
#include "planner/plan/plan_rep.h"
#include "planner/schedule/timeline.h"
#include "proto/program/program_proto.h"
#include "tests/planner/planned_programs.h"

namespace remesh::planner {

using proto::NamedProgram;
using proto::ReadProgram;

namespace {

// What a program says of each transfer, in the caller's names.
using NamedTransfer =
    std::tuple<int32_t, std::string, Box, int64_t, int64_t, Space, Space, int32_t>;

std::vector<NamedTransfer> Expanded(const NamedProgram& named) {
  std::vector<NamedTransfer> transfers;
  ForEachTransfer(named.program, [&](const Transfer& t) {
    transfers.emplace_back(t.window, named.arrays[t.array].name, t.box,
                           named.devices[t.from_device], named.devices[t.to_device], t.from_space,
                           t.to_space, t.tape);
    return true;
  });
  return transfers;
}

std::vector<NamedTransfer> Expected(const PlannedRequest& planned, int32_t host) {
  const Binding& binding = planned.request.binding;
  std::vector<NamedTransfer> transfers;
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

// The elements of a program's stretches, in the form of its transfers.
std::vector<NamedTransfer> OfStretches(const NamedProgram& named) {
  std::vector<NamedTransfer> transfers;
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
Elements(const std::vector<NamedTransfer>& transfers) {
  std::map<std::tuple<int32_t, std::string, int64_t, int64_t, Space, Space, int32_t>, int64_t> sum;
  for (const auto& [window, array, box, from, to, from_space, to_space, tape] : transfers)
    sum[{window, array, from, to, from_space, to_space, tape}] += box.element_count();
  return sum;
}

// A device passes on only stretches that it got, in an earlier window, from whoever made their
// digests or got them so; and both ends of a pair speak of the same.
TEST(ProgramLawTest, StretchesAreNeverCutOnTheirWay) {
  using Place = std::tuple<int32_t, int64_t, int64_t, int64_t, Space>;  // of a stretch
  using Sent = std::tuple<int32_t, int32_t, int64_t, int64_t>;          // window, tape, range
  int64_t passed_on = 0, cut = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto planned = PlanOf(seed);
    if (!planned) continue;
    const CanonicalRequest& request = planned->request.canonical;
    // The stretches that pass between two devices, as the program of each end has them.
    std::map<std::pair<int64_t, int64_t>, std::vector<std::vector<Sent>>> passing;
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
      for (auto& [pair, sent] : here) passing[pair].push_back(std::move(sent));
    }
    for (const auto& [pair, ends] : passing) {
      for (const auto& end : ends) EXPECT_EQ(end, ends.front());
    }
  }
  EXPECT_GT(passed_on, 1000);
  EXPECT_GT(cut, 100);
}

}  // namespace
}  // namespace remesh::planner
