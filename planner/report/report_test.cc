// SPDX-License-Identifier: Apache-2.0
// Tests of the forms of reports: traces, the page, numbers as text.
#include "planner/report/report_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "planner/report/html.h"
#include "planner/report/units.h"
#include "tests/testing/random_request.h"

namespace remesh::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Track = std::pair<int, int>;

// Each host sends the next ones other rows than before, so that no two are equal.
ReshardRequest RowsOf(const std::vector<std::string>& hosts) {
  ReshardRequest request = Hosts(hosts);
  const auto devices = 2 * static_cast<int64_t>(hosts.size());
  const Shape shape = {devices * (devices - 1), 4};
  request.arrays.push_back({.name = "w",
                            .shape = shape,
                            .element_type = ElementType::kBf16,
                            .source = Tiles(shape, devices, 1),
                            .target = Tiles(shape, devices - 1, 1)});
  return request;
}

// Checks what every viewer relies on: events of a thread do not overlap, and arrows start and end
// in events.
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
  const ReportedPlan planned = PlanOf(RowsToColumns(8));
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
  const ReportedPlan planned = PlanOf(request);
  ASSERT_GT(planned.plan.summary().windows, 100);
  const Json trace = planned.trace({.events_max = 100, .arrows_max = 0});
  CheckTrace(trace);
  EXPECT_LT(trace["traceEvents"].size(), 250u);
  EXPECT_EQ(BytesOut(trace), planned.plan.summary().crossing_bytes);
  EXPECT_GT(trace["otherData"]["windowsPerEvent"], 1);
}

// Cuts move to whole rows, so that windows are not quite as long as predicted.
TEST(TraceTest, EndsAtThePredictedTime) {
  ReshardRequest request = RowsToColumns(3000);
  request.options.window_bytes = 1 << 20;
  const ReportedPlan planned = PlanOf(request);
  const Json trace = planned.trace();
  double end = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_NEAR(end, planned.plan.summary().predicted_seconds * 1e6, 1e-6 * end);
}

// Canonical hosts are in an order of their own.
TEST(TraceTest, HostsStandAsInTheSpec) {
  const std::vector<std::string> hosts = {"node-7", "b", "node-10", "a", "z", "c", "node-2", "y"};
  std::map<int, std::string> name_of;
  const Json trace = PlanOf(RowsOf(hosts)).trace();
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") name_of[event["pid"]] = event["args"]["name"];
    if (event["name"] == "process_sort_index") EXPECT_EQ(event["args"]["sort_index"], event["pid"]);
  }
  std::vector<std::string> names;
  for (const auto& [process, name] : name_of) names.push_back(name);
  ASSERT_EQ(names.front(), "plan");
  names.erase(names.begin());
  EXPECT_EQ(names, hosts);
}

TEST(TraceTest, RandomPlans) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    CheckTrace(PlanOf(testing::RandomRequest(seed)).trace());
  }
}

TEST(HtmlTest, ThePageIsWholeAndNamesCannotBreakIt) {
  const std::string evil = "</script><img src=x onerror=alert(1)>/*DATA*/";
  const ReportedPlan planned = PlanOf(RowsToColumns(8, {evil, "b"}));
  const std::string page =
      HtmlPage(planned.request, planned.plan, planned.binding, planned.explanation(), evil);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("<title>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;/*DATA*/: "
                              "resharded over 4 devices – remesh plan</title>"));
  EXPECT_THAT(page, Not(HasSubstr("/*SCRIPT*/")));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  const std::string begin = "id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  const Json data = Json::parse(page.substr(from, page.find("</script>", from) - from));
  EXPECT_EQ(data["groups"].size(), 2u);
  EXPECT_EQ(data["label"], evil);
  EXPECT_EQ(data["groups"][0]["first"], evil);
  EXPECT_EQ(data["summary"]["crossingBytes"], 64);
  EXPECT_EQ(data["matrix"].size(), 4u);
}

TEST(UnitsTest, Texts) {
  EXPECT_EQ(BytesText(12), "12 B");
  EXPECT_EQ(BytesText(800e9), "800 GB");
  EXPECT_EQ(BytesText(999.99e6), "1 GB");
  EXPECT_EQ(SecondsText(0), "0 s");
  EXPECT_EQ(SecondsText(32e-9), "32 ns");
  EXPECT_EQ(SecondsText(3.072e-6), "3.072 µs");
  EXPECT_EQ(SecondsText(0.0123456), "12.35 ms");
}

}  // namespace
}  // namespace remesh::planner
