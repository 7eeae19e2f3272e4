// SPDX-License-Identifier: Apache-2.0
// The example of ARCHITECTURE.md: one 8 x 8 array goes from rows to columns, and each floor of the
// planner says what it makes of it. The document holds exactly what this prints.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "planner/atoms/demand_classes.h"
#include "planner/canonical/canonical.h"
#include "planner/codec/plan_bytes.h"
#include "planner/figures.h"
#include "planner/make_plan.h"
#include "planner/moves/make_moves.h"
#include "planner/plan/host_program.h"
#include "planner/routing/make_routings.h"
#include "planner/schedule/make_timeline.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/to_layout.h"
#include "planner/validate.h"

namespace remesh::planner {
namespace {

constexpr char kDocument[] = REMESH_SOURCE_DIR "/ARCHITECTURE.md";
constexpr char kBegin[] = "```text walkthrough\n", kEnd[] = "```\n";

Placement Sharded(const char* hlo_text, const Shape& shape, const DeviceListPtr& devices) {
  const auto sharding = ParseHloSharding(hlo_text);
  EXPECT_TRUE(sharding.ok()) << sharding.status();
  auto layout = ToLayout(*sharding, shape, static_cast<int32_t>(devices->size()));
  EXPECT_TRUE(layout.ok()) << layout.status();
  return {.layout = std::make_shared<const Layout>(*std::move(layout)), .devices = devices};
}

Host HostOf(const char* name, std::vector<int64_t> ids) {
  return {.name = name,
          .device_ids = std::move(ids),
          .nic_bytes_per_second = 1e9,
          .nics = 1,
          .fabric_bytes_per_second = 1e11};
}

ReshardRequest RowsToColumns() {
  const auto devices = std::make_shared<const DeviceList>(DeviceList{0, 1, 2, 3});
  const Shape shape = {8, 8};
  ReshardRequest request;
  request.topology.hosts = {HostOf("a", {0, 1}), HostOf("b", {2, 3})};
  request.arrays = {{.name = "w",
                     .shape = shape,
                     .element_type = ElementType::kBf16,
                     .source = Sharded("{devices=[4,1]<=[4]}", shape, devices),
                     .target = Sharded("{devices=[1,4]<=[4]}", shape, devices)}};
  return request;
}

std::string Boxes(const Placement& placement) {
  std::vector<std::string> shown;
  for (int32_t position = 0; position < placement.layout->device_count; ++position) {
    shown.push_back(absl::StrCat((*placement.devices)[position], ": ",
                                 BoxesOf(*placement.layout, position)[0].DebugString()));
  }
  return absl::StrJoin(shown, "  ");
}

std::string Set(const Group& group) { return absl::StrCat("{", absl::StrJoin(group, ","), "}"); }

std::string Line(const char* floor, const std::string& text) {
  return absl::StrFormat("%-10s %s\n", floor, text);
}

std::string AtomsAndTapes(const Atoms& atoms) {
  std::string text = Line(
      "atoms", absl::StrCat(atoms.numbers.size(), " atoms on ", atoms.tapes.size(), " tapes:"));
  for (size_t t : {size_t{0}, size_t{1}}) {
    const Tape& tape = atoms.tapes[t];
    const Box box = atoms.geometry.classes[0].AtomBox(atoms.numbers[tape.first_atom]);
    absl::StrAppend(
        &text, Line("", absl::StrCat("tape ", t, ": ", box.DebugString(), ", held by ",
                                     Set(atoms.groups[tape.holders]), ", needed by ",
                                     Set(atoms.groups[tape.needers]), ", ", tape.bits, " bits")));
  }
  return text;
}

std::string Demand(const DemandClasses& demand) {
  std::string text;
  for (size_t c = 0; c < demand.classes.size(); ++c) {
    const DemandClass& one = demand.classes[c];
    absl::StrAppend(&text, Line("", absl::StrCat("demand class ", c, ": hosts ", Set(one.holders),
                                                 " to ", Set(one.needers), ", ", one.tapes.size(),
                                                 " tapes, ", one.bits, " bits")));
  }
  return text;
}

std::string Program(const HostProgram& program) {
  return absl::StrCat(program.moves.size(), " moves over ", program.segments.size(),
                      " segments of ", program.tape_numbers.size(), " tapes");
}

std::string Walk() {
  const ReshardRequest request = RowsToColumns();
  std::string text = Line("values", "w bf16[8,8], devices 0 1 on host a, 2 3 on host b");
  absl::StrAppend(&text, Line("sharding", Boxes(request.arrays[0].source)),
                  Line("", absl::StrCat("to ", Boxes(request.arrays[0].target))));
  const auto canonical = Canonicalize(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  const ReshardRequest& planned = canonical->canonical.request;
  absl::StrAppend(&text, Line("canonical", canonical->canonical.fingerprint));
  const Network network = MakeNetwork(planned);
  absl::StrAppend(
      &text, Line("network", absl::StrCat(network.device_count(), " devices, ", network.nics.size(),
                                          " NICs, ", network.host_count(), " hosts of ",
                                          network.hosts[0].capacity(), " bytes/s")));
  const auto atoms = MakeAtoms(planned, network);
  EXPECT_TRUE(atoms.ok()) << atoms.status();
  const DemandClasses demand = MakeDemandClasses(*atoms, network);
  absl::StrAppend(&text, AtomsAndTapes(*atoms), Demand(demand));
  const Routings routings = MakeRoutings(Strategy::kOptimal, *atoms, demand, network);
  Budget& budget = Budget::Unlimited();
  Moves moves = MakeMoves(Strategy::kOptimal, *atoms, demand, routings, network, budget);
  const auto timed = MakeTimeline(planned, *atoms, std::move(moves), network, budget);
  EXPECT_TRUE(timed.ok()) << timed.status();
  const auto& [segments, timeline] = *timed;
  const Figures figures = MakeFigures(*atoms, routings, segments, timeline, network);
  const PlanSummary& summary = figures.summary;
  absl::StrAppend(
      &text,
      Line("routing", absl::StrCat("lower bound ", summary.lower_bound_seconds,
                                   " s: ", figures.lower_bound.DebugString())),
      Line("schedule", absl::StrCat(timeline.moves.size(), " moves of ", segments.size(),
                                    " segments in ", timeline.schedule.windows(), " windows, ",
                                    timeline.messages, " messages")));
  const auto plan = MakePlan(canonical->canonical);
  EXPECT_TRUE(plan.ok() && ValidatePlan(*plan, canonical->canonical).ok());
  EXPECT_EQ(plan->summary(), summary) << "the same steps";
  absl::StrAppend(
      &text,
      Line("plan", absl::StrCat(summary.total_bytes, " bytes: ", summary.kept_bytes, " kept, ",
                                summary.local_bytes, " inside hosts, ", summary.crossing_bytes,
                                " between; quality ", summary.quality)),
      Line("", absl::StrCat("host a: ", Program(ProgramOfHost(*plan, 0)))),
      Line("codec", absl::StrCat(EncodePlan(canonical->canonical, *plan).size(), " bytes")));
  return text;
}

TEST(WalkthroughTest, TheArchitectureShowsWhatEachFloorMakes) {
  std::ifstream file(kDocument);
  std::stringstream content;
  content << file.rdbuf();
  const std::string document = content.str(), walk = Walk();
  const size_t begin = document.find(kBegin);
  ASSERT_NE(begin, std::string::npos) << kDocument << " has no walkthrough; it should be\n" << walk;
  const size_t from = begin + sizeof(kBegin) - 1;
  EXPECT_EQ(document.substr(from, document.find(kEnd, from) - from), walk);
}

}  // namespace
}  // namespace remesh::planner
