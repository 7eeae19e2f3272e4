// SPDX-License-Identifier: Apache-2.0
// Reports of plans whose numbers are known by hand, and of random ones against their transfers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/plan/plan_rep.h"
#include "planner/report/explanation.h"
#include "planner/report/flows.h"
#include "planner/report/html.h"
#include "planner/report/links.h"
#include "planner/report/names.h"
#include "planner/report/trace.h"
#include "planner/report/traffic.h"
#include "planner/report/units.h"
#include "planner/schedule/cost_model.h"
#include "tests/testing/random_request.h"

namespace remesh {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Placement Tiles(const Shape& shape, int64_t rows, int64_t columns, int64_t first_device = 0) {
  std::vector<int64_t> numbers;
  DeviceList ids;
  for (int64_t i = 0; i < rows * columns; ++i) {
    numbers.push_back(i);
    ids.push_back(first_device + i);
  }
  std::vector<DimPartition> partitions = {TilePartition(shape[0], rows),
                                          TilePartition(shape[1], columns)};
  return {.layout = std::make_shared<Layout>(MakeSeparableLayout(shape, partitions, numbers)),
          .devices = std::make_shared<DeviceList>(ids)};
}

// Devices 2i and 2i + 1 on host i, one NIC of 1 GB/s each.
ReshardRequest Hosts(const std::vector<std::string>& names) {
  ReshardRequest request;
  for (size_t i = 0; i < names.size(); ++i) {
    const int64_t id = 2 * static_cast<int64_t>(i);
    request.topology.hosts.push_back({.name = names[i],
                                      .device_ids = {id, id + 1},
                                      .nic_bytes_per_second = 1e9,
                                      .nics = 1,
                                      .fabric_bytes_per_second = 1e11});
  }
  return request;
}

// Rows to columns of n x n bf16 over two hosts: each host keeps or has half of what it needs.
ReshardRequest RowsToColumns(int64_t n, const std::vector<std::string>& names = {"a", "b"}) {
  ReshardRequest request = Hosts(names);
  const Shape shape = {n, n};
  request.arrays.push_back({.name = "w",
                            .shape = shape,
                            .element_type = ElementType::kBf16,
                            .source = Tiles(shape, 4, 1),
                            .target = Tiles(shape, 1, 4)});
  return request;
}

struct Planned {
  CanonicalRequest request;
  Binding binding;
  Plan plan;

  Traffic traffic(const TrafficOptions& options = {}) const {
    return TrafficOf(request, plan, binding, options);
  }
  Explanation explanation() const { return *Explain(request, plan, binding); }
  Json trace(const TraceOptions& options = {}) const {
    return Json::parse(ChromeTrace(request, plan, binding, options));
  }
};

Planned PlanOf(const ReshardRequest& request) {
  auto canonical = Canonicalize(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto plan = MakePlan(canonical->canonical);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {canonical->canonical, canonical->binding, *plan};
}

// Bits by window and pair of devices, from the boxes that devices really send each other.
using BitsOfPairs = std::map<std::tuple<int32_t, int32_t, int32_t>, int64_t>;

BitsOfPairs BitsOfTransfers(const Planned& planned) {
  BitsOfPairs bits;
  planned.plan.ForEachTransfer([&](const Transfer& t) {
    if (t.from_device == t.to_device) return;
    const ElementType type = planned.request.request.arrays[t.array].element_type;
    bits[{t.window, t.from_device, t.to_device}] += t.box.element_count() * BitWidth(type);
  });
  return bits;
}

void ExpectFlowsOfTransfers(const Planned& planned) {
  BitsOfPairs found, merged;
  int32_t last = -1;
  planned.plan.ForEachFlow([&](const Flow& f) {
    EXPECT_GE(f.window, last);
    EXPECT_NE(f.from_device, f.to_device);
    EXPECT_GT(f.bits, 0);
    last = f.window;
    found[{f.window, f.from_device, f.to_device}] += f.bits;
  });
  EXPECT_EQ(found, BitsOfTransfers(planned));
  ForEachWindow(planned.plan, [&](int32_t window, absl::Span<const Flow> flows) {
    for (const Flow& f : flows) {
      const bool first = merged.insert({{window, f.from_device, f.to_device}, f.bits}).second;
      EXPECT_TRUE(first) << "a pair of devices comes once a window";
    }
  });
  EXPECT_EQ(merged, found);
}

TEST(FlowsTest, AreTheBitsOfTheTransfers) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    ExpectFlowsOfTransfers(PlanOf(testing::RandomRequest(seed)));
  }
}

// Large enough that cuts move to whole rows, in many windows.
TEST(FlowsTest, FollowTransfersToWholeRows) {
  ReshardRequest request = Hosts({"a", "b", "c"});
  request.options.window_bytes = 1 << 20;
  for (const int64_t n : {3000, 4096}) {
    const Shape shape = {n, n};
    request.arrays.push_back({.name = n == 3000 ? "v" : "w",
                              .shape = shape,
                              .element_type = ElementType::kBf16,
                              .source = Tiles(shape, 4, 1),
                              .target = Tiles(shape, 2, 3)});
  }
  const Planned planned = PlanOf(request);
  EXPECT_GT(planned.plan.rep().tapes.slack_bits, 16);
  EXPECT_GT(planned.plan.summary().windows, 4);
  ExpectFlowsOfTransfers(planned);
}

// Sums over host pairs do not depend on how a plan is told.
TEST(TrafficTest, TheMatrixHoldsWhatHostsSendEachOther) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Planned planned = PlanOf(testing::RandomRequest(seed));
    const std::vector<int32_t> order = HostsByName(planned.binding);
    std::vector<size_t> row_of(order.size());
    for (size_t i = 0; i < order.size(); ++i) row_of[order[i]] = i;
    const std::vector<int32_t>& host_of = planned.plan.rep().host_of;
    std::vector<int64_t> bits(order.size() * order.size(), 0);
    for (const auto& [key, sent] : BitsOfTransfers(planned)) {
      const auto& [window, from, to] = key;
      bits[row_of[host_of[from]] * order.size() + row_of[host_of[to]]] += sent;
    }
    const Traffic traffic = planned.traffic({.groups_max = 1 << 20});
    ASSERT_EQ(traffic.matrix.size(), bits.size());
    for (size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(traffic.matrix[i], (bits[i] + 7) / 8);
  }
}

TEST(TrafficTest, TwoHostsExchangeHalfOfWhatTheyNeed) {
  const Traffic traffic = PlanOf(RowsToColumns(8)).traffic();
  ASSERT_EQ(traffic.groups.size(), 2u);
  EXPECT_EQ(traffic.groups[0].name, "a");
  EXPECT_EQ(traffic.groups[0].bytes_per_second, 1e9);
  EXPECT_THAT(traffic.matrix, ElementsAre(16, 32, 32, 16));
  ASSERT_EQ(traffic.steps.size(), 1u);
  EXPECT_EQ(traffic.steps[0].bytes_crossing, 64);
  EXPECT_EQ(traffic.steps[0].bytes_local, 32);
  EXPECT_THAT(traffic.steps[0].bytes_in, ElementsAre(32, 32));
  EXPECT_DOUBLE_EQ(traffic.steps[0].seconds, WindowSeconds(32e-9));
}

TEST(TrafficTest, HostsStandInTheOrderOfTheirNamesAndInGroups) {
  ReshardRequest request = Hosts({"n10", "n9", "n1", "n2", "n11"});
  const Shape shape = {40, 40};
  request.arrays.push_back(
      {.name = "w", .shape = shape, .source = Tiles(shape, 10, 1), .target = Tiles(shape, 1, 10)});
  const Planned planned = PlanOf(request);
  const Traffic traffic = planned.traffic({.groups_max = 3});
  ASSERT_EQ(traffic.groups.size(), 3u);
  EXPECT_EQ(traffic.groups[0].name, "n1 .. n2");
  EXPECT_EQ(traffic.groups[1].name, "n9 .. n10");
  EXPECT_EQ(traffic.groups[2].name, "n11");
  EXPECT_EQ(traffic.groups[2].hosts, 1);
  // Each host needs 40 x 8 bytes, of which it has a fifth; half of that fifth stays on its device.
  const int64_t local = 5 * 32;
  EXPECT_EQ(std::accumulate(traffic.matrix.begin(), traffic.matrix.end(), int64_t{0}),
            planned.plan.summary().bytes_crossing + local);
}

TEST(TrafficTest, StepsTakeWindowsTogetherAndLastAsLongAsPredicted) {
  ReshardRequest request = RowsToColumns(1024);
  request.options.window_bytes = 16 << 10;
  const Planned planned = PlanOf(request);
  const Traffic fine = planned.traffic({.steps_max = 1 << 20});
  const Traffic coarse = planned.traffic({.steps_max = 7});
  ASSERT_GT(fine.steps.size(), 7u);
  EXPECT_LE(coarse.steps.size(), 7u);
  EXPECT_EQ(fine.matrix, coarse.matrix);
  for (const Traffic* traffic : {&fine, &coarse}) {
    const Traffic::Step& last = traffic->steps.back();
    EXPECT_NEAR(last.start + last.seconds, planned.plan.summary().predicted_seconds,
                0.01 * planned.plan.summary().predicted_seconds);
    EXPECT_EQ(last.first_window + last.windows, planned.plan.summary().windows);
  }
}

TEST(ExplainTest, TwoHosts) {
  const Explanation explanation = PlanOf(RowsToColumns(8)).explanation();
  EXPECT_THAT(explanation.certificate,
              HasSubstr("must receive 32 B that none of its devices holds"));
  EXPECT_THAT(explanation.bottleneck, HasSubstr("carries 32 B at 1 GB/s, 32 ns; 4 of 4 links"));
  ASSERT_EQ(explanation.domains.size(), 2u);
  for (const DomainTraffic& row : explanation.domains) {
    EXPECT_TRUE(row.binding);
    EXPECT_EQ(row.bytes_in, 32);
    EXPECT_EQ(row.bytes_out, 32);
    EXPECT_DOUBLE_EQ(row.seconds_in, 32e-9);
  }
  ASSERT_EQ(explanation.strategies.size(), 4u);
  EXPECT_EQ(explanation.strategies[0].bytes_crossing, 64);
  EXPECT_EQ(explanation.strategies[0].ratio, 1);
  EXPECT_EQ(explanation.strategies[1].bottleneck_bytes, 32);
  // One device gathers what it lacks of 128 bytes, and its host sends three quarters of them on, 64
  // of which cross.
  EXPECT_GT(explanation.strategies[2].ratio, 1);
  // Half of the array is written and half of it read by each host.
  EXPECT_EQ(explanation.strategies[3].bytes_crossing, 256);
  EXPECT_EQ(explanation.strategies[3].bottleneck_bytes, 128);
  EXPECT_DOUBLE_EQ(explanation.strategies[3].seconds, 64e-9);
}

// The price of a schedule counts from the busiest NIC: what inside hosts takes longer is said.
TEST(ExplainTest, ASlowFabricIsNamed) {
  ReshardRequest request = RowsToColumns(8);
  EXPECT_THAT(PlanOf(request).explanation().bottleneck, Not(HasSubstr("inside hosts")));
  for (Host& host : request.topology.hosts) host.fabric_bytes_per_second = 1e8;
  EXPECT_THAT(PlanOf(request).explanation().bottleneck,
              HasSubstr("; inside hosts, egress of the fabric of a device of host a carries 8 B at "
                        "100 MB/s, 80 ns"));
}

TEST(ExplainTest, ReplicasShareWritingAndAreReadOnceAHost) {
  ReshardRequest request = Hosts({"a", "b"});
  const Shape shape = {8, 8};
  Placement replicated = Tiles(shape, 1, 1);
  Layout layout = MakeSeparableLayout(shape, {TilePartition(8, 1), TilePartition(8, 1)},
                                      std::vector<int64_t>(4, 0));
  replicated.layout = std::make_shared<Layout>(std::move(layout));
  replicated.devices = std::make_shared<DeviceList>(DeviceList{0, 1, 2, 3});
  request.arrays.push_back(
      {.name = "w", .shape = shape, .source = replicated, .target = replicated});
  const Planned planned = PlanOf(request);
  const Explanation explanation = planned.explanation();
  EXPECT_EQ(explanation.strategies[3].bytes_crossing, 64 + 128);
  EXPECT_EQ(explanation.strategies[3].bottleneck_bytes, 32 + 64);
  EXPECT_TRUE(explanation.domains.empty());
  EXPECT_EQ(explanation.bottleneck, "no byte leaves its host");
  EXPECT_EQ(explanation.strategies[0].ratio, 1);
  EXPECT_TRUE(std::isinf(explanation.strategies[3].ratio));
}

TEST(ExplainTest, ANarrowRackBinds) {
  ReshardRequest request = RowsToColumns(64);
  for (Host& host : request.topology.hosts) host.parent = host.name + "-rack";
  request.topology.domains = {{"a-rack", "", 1e8, 1e8}, {"b-rack", "", 1e9, 1e9}};
  const Planned planned = PlanOf(request);
  const Explanation explanation = planned.explanation();
  EXPECT_EQ(explanation.domains[0].name, "a-rack");
  EXPECT_EQ(explanation.domains[0].kind, DomainTraffic::Kind::kDomain);
  EXPECT_TRUE(explanation.domains[0].binding);
  EXPECT_THAT(explanation.bottleneck, HasSubstr("gress of domain a-rack carries"));
  EXPECT_THAT(explanation.certificate, HasSubstr("domain a-rack"));
  EXPECT_NEAR(std::max(explanation.domains[0].seconds_in, explanation.domains[0].seconds_out),
              planned.plan.summary().bottleneck_seconds,
              1e-9 * planned.plan.summary().bottleneck_seconds);
}

// Two racks of two hosts; an uplink carries half of what the NICs of its two hosts could. Of 2000 x
// 2000 bytes each device needs a quarter, half of which lies in the other rack: 2 x 500 kB enter
// each rack at 1 GB/s in 1 ms, while a host's 750 kB take 0.75 ms.
TEST(ExplainTest, ARackNarrowerThanItsHostsBinds) {
  ReshardRequest request;
  for (int64_t h = 0; h < 4; ++h) {
    request.topology.hosts.push_back({.name = absl::StrCat("h", h),
                                      .device_ids = {h},
                                      .nic_bytes_per_second = 1e9,
                                      .nics = 1,
                                      .fabric_bytes_per_second = 1e11,
                                      .parent = h < 2 ? "east" : "west"});
  }
  request.topology.domains = {
      {"pod", "", 1e12, 1e12}, {"east", "pod", 1e9, 1e9}, {"west", "pod", 1e9, 1e9}};
  const Shape shape = {2000, 2000};
  request.arrays.push_back({.name = "w",
                            .shape = shape,
                            .element_type = ElementType::kU8,
                            .source = Tiles(shape, 4, 1),
                            .target = Tiles(shape, 1, 4)});
  const Planned planned = PlanOf(request);
  EXPECT_DOUBLE_EQ(planned.plan.summary().lower_bound_seconds, 1e-3);
  EXPECT_LE(planned.plan.summary().quality, 1.001);
  const Explanation explanation = planned.explanation();
  EXPECT_THAT(explanation.certificate,
              ::testing::MatchesRegex("domain (east|west) must receive 1 MB that none of its "
                                      "devices holds: at 1 GB/s, 1 ms"));
  ASSERT_EQ(explanation.levels.size(), 2u);
  EXPECT_EQ(explanation.levels[0].count, 2);
  EXPECT_EQ(explanation.levels[0].bytes_out, 2'000'000);
  EXPECT_TRUE(explanation.levels[0].binding);
  EXPECT_EQ(explanation.levels[1].busiest.kind, DomainTraffic::Kind::kHost);
  EXPECT_EQ(explanation.levels[1].bytes_out, 4 * 750'000);
  EXPECT_FALSE(explanation.levels[1].binding);
  ASSERT_EQ(explanation.domains.size(), 6u);
  for (const DomainTraffic& row : explanation.domains) {
    const bool rack = row.kind == DomainTraffic::Kind::kDomain;
    EXPECT_EQ(row.binding, rack) << row.name;
    EXPECT_EQ(row.level, rack ? 1 : 0) << row.name;
    EXPECT_NEAR(row.seconds_in, rack ? 1e-3 : 0.75e-3, 1e-6) << row.name;
    EXPECT_EQ(row.ingress_bytes_per_second, 1e9) << row.name;
  }
}

TEST(ExplainTest, RefusesRatesThatAreNoRates) {
  const Planned planned = PlanOf(RowsToColumns(8));
  for (const double rate : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    const auto explanation = Explain(planned.request, planned.plan, planned.binding, {rate});
    EXPECT_EQ(GetErrorInfo(explanation.status()).metadata["field"], "checkpoint_bytes_per_second");
  }
}

TEST(ExplainTest, TheBusiestRowIsThePlansBottleneck) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Planned planned = PlanOf(testing::RandomRequest(seed));
    const Explanation explanation = planned.explanation();
    const double expected = planned.plan.summary().bottleneck_seconds;
    double busiest = 0;
    for (const DomainTraffic& row : explanation.domains) {
      busiest = std::max({busiest, row.seconds_in, row.seconds_out});
    }
    // Slices end at whole elements: a link may carry an element of 16 bytes more or less a slice.
    EXPECT_NEAR(busiest, expected, 0.02 * expected + 1e-6);
    const Traffic traffic = planned.traffic();
    int64_t between = 0, crossing = 0;
    for (size_t i = 0; i < traffic.groups.size(); ++i) {
      for (size_t j = 0; j < traffic.groups.size(); ++j) {
        if (i != j) between += traffic.BytesBetween(i, j);
      }
    }
    for (const Traffic::Step& step : traffic.steps) crossing += step.bytes_crossing;
    EXPECT_NEAR(static_cast<double>(between), static_cast<double>(crossing),
                static_cast<double>(traffic.matrix.size() + traffic.steps.size()));
  }
}

using Track = std::pair<int, int>;

// What every viewer relies on: events of a thread do not overlap, arrows start and end in events.
void CheckTrace(const Json& trace) {
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  std::map<Track, double> end_of;
  std::map<int, int> arrow_ends;
  std::set<Track> named;
  std::set<std::pair<Track, double>> starts;
  for (const Json& event : trace["traceEvents"]) {
    const Track track{event["pid"].get<int>(), event["tid"].get<int>()};
    const double ts = event["ts"].get<double>();
    if (event["name"] == "thread_name") named.insert(track);
    if (event["ph"] == "X") {
      EXPECT_TRUE(named.contains(track));
      EXPECT_GE(ts, end_of[track] - 1e-9);
      end_of[track] = ts + event["dur"].get<double>();
      starts.insert({track, ts});
    }
    if (event["ph"] == "s") arrow_ends[event["id"].get<int>()] += 1;
    if (event["ph"] == "f") arrow_ends[event["id"].get<int>()] += 2;
    if (event["ph"] == "s" || event["ph"] == "f") {
      EXPECT_TRUE(starts.contains({track, ts}));
    }
  }
  for (const auto& [id, ends] : arrow_ends) EXPECT_EQ(ends, 3) << id;
}

int64_t BytesOut(const Json& trace) {
  int64_t bytes = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] == 0) continue;
    if (event["tid"].get<int>() % 2 == 0 && event["tid"] != 4)
      bytes += event["args"]["bytes"].get<int>();
  }
  return bytes;
}

TEST(TraceTest, TwoHosts) {
  const Planned planned = PlanOf(RowsToColumns(8));
  const Json trace = planned.trace();
  CheckTrace(trace);
  EXPECT_EQ(BytesOut(trace), 64);
  std::multiset<std::string> phases;
  std::set<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    phases.insert(event["ph"]);
    if (event["name"] == "process_name" || event["name"] == "thread_name") {
      names.insert(event["args"]["name"]);
    }
  }
  EXPECT_THAT(names, ElementsAre("NIC 0 in", "NIC 0 out", "a", "b", "inside", "plan", "windows"));
  EXPECT_EQ(phases.count("X"), 1u + 2 * 3);  // the window; two NIC directions and the inside each
  EXPECT_EQ(phases.count("s"), 2u);
  EXPECT_EQ(phases.count("C"), 2u);
}

TEST(TraceTest, TooManyEventsAreTakenTogether) {
  ReshardRequest request = RowsToColumns(1024);
  request.options.window_bytes = 4 << 10;
  const Planned planned = PlanOf(request);
  ASSERT_GT(planned.plan.summary().windows, 100);
  const Json trace = planned.trace({.events_max = 100, .arrows_max = 0});
  CheckTrace(trace);
  EXPECT_LT(trace["traceEvents"].size(), 250u);
  EXPECT_EQ(BytesOut(trace), planned.plan.summary().bytes_crossing);
  EXPECT_GT(trace["otherData"]["windowsPerEvent"], 1);
}

TEST(TraceTest, RandomPlans) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    CheckTrace(PlanOf(testing::RandomRequest(seed)).trace());
  }
}

TEST(HtmlTest, ThePageIsWholeAndNamesCannotBreakIt) {
  const std::string evil = "</script><img src=x onerror=alert(1)>/*DATA*/";
  const Planned planned = PlanOf(RowsToColumns(8, {evil, "b"}));
  const std::string page =
      HtmlPage(planned.request, planned.plan, planned.explanation(), planned.traffic());
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("/*SCRIPT*/")));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  const std::string begin = "id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  const Json data = Json::parse(page.substr(from, page.find("</script>", from) - from));
  EXPECT_EQ(data["groups"].size(), 2u);
  EXPECT_EQ(data["groups"][0]["name"], evil);
  EXPECT_EQ(data["summary"]["bytesCrossing"], 64);
  EXPECT_EQ(data["matrix"].size(), 4u);
}

TEST(UnitsTest, Texts) {
  EXPECT_EQ(BytesText(12), "12 B");
  EXPECT_EQ(BytesText(800e9), "800 GB");
  EXPECT_EQ(BytesText(999.99e6), "1 GB");
  EXPECT_EQ(SecondsText(0), "0 s");
  EXPECT_EQ(SecondsText(32e-9), "32 ns");
  EXPECT_EQ(SecondsText(0.0123456), "12.35 ms");
}

}  // namespace
}  // namespace remesh
