// SPDX-License-Identifier: Apache-2.0
#include "planner/report/html.h"

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "planner/report/json_writer.h"
#include "planner/report/page.h"

namespace remesh {
namespace {

constexpr size_t kDomainRowsMax = 256;

void WriteSummary(const CanonicalRequest& request, const PlanSummary& s, JsonWriter& json) {
  json.Key("summary").BeginObject();
  json.Key("fingerprint").String(request.fingerprint);
  json.Key("arrays").Int(static_cast<int64_t>(request.request.arrays.size()));
  json.Key("hosts").Int(static_cast<int64_t>(request.request.topology.hosts.size()));
  json.Key("windowBytes").Int(request.request.options.window_bytes);
  json.Key("bytesTotal").Int(s.bytes_total).Key("bytesKept").Int(s.bytes_kept);
  json.Key("bytesLocal").Int(s.bytes_local).Key("bytesCrossing").Int(s.bytes_crossing);
  json.Key("bytesRelayed").Int(s.bytes_relayed).Key("bottleneckBytes").Int(s.bottleneck_bytes);
  json.Key("bottleneckSeconds").Double(s.bottleneck_seconds);
  json.Key("lowerBoundSeconds").Double(s.lower_bound_seconds);
  json.Key("routingBoundSeconds").Double(s.routing_bound_seconds);
  json.Key("quality").Double(s.quality).Key("predictedSeconds").Double(s.predicted_seconds);
  json.Key("peakBytesMax").Int(s.peak_bytes_max).Key("windows").Int(s.windows);
  json.Key("operations").Int(s.operations).EndObject();
}

void WriteDomain(const DomainTraffic& row, JsonWriter& json) {
  json.BeginObject().Key("name").String(row.name);
  json.Key("host").Bool(row.kind == DomainTraffic::Kind::kHost).Key("level").Int(row.level);
  json.Key("bytesIn").Int(row.bytes_in).Key("bytesOut").Int(row.bytes_out);
  json.Key("capacityIn").Double(row.ingress_bytes_per_second);
  json.Key("capacityOut").Double(row.egress_bytes_per_second);
  json.Key("secondsIn").Double(row.seconds_in).Key("secondsOut").Double(row.seconds_out);
  json.Key("binding").Bool(row.binding).EndObject();
}

void WriteExplanation(const Explanation& explanation, JsonWriter& json) {
  json.Key("certificate").String(explanation.certificate);
  json.Key("routingCertificate").String(explanation.routing_certificate);
  json.Key("bottleneck").String(explanation.bottleneck);
  json.Key("strategies").BeginArray();
  for (const StrategyCost& row : explanation.strategies) {
    json.BeginObject().Key("name").String(row.name).Key("how").String(row.how);
    json.Key("bytesCrossing").Int(row.bytes_crossing);
    json.Key("bottleneckBytes").Int(row.bottleneck_bytes);
    json.Key("seconds").Double(row.seconds).Key("ratio").Double(row.ratio).EndObject();
  }
  json.EndArray().Key("domainsLeftOut");
  const size_t shown = std::min(explanation.domains.size(), kDomainRowsMax);
  json.Int(static_cast<int64_t>(explanation.domains.size() - shown)).Key("domains").BeginArray();
  for (size_t i = 0; i < shown; ++i) {
    WriteDomain(explanation.domains[i], json);
  }
  json.EndArray().Key("levels").BeginArray();
  for (const LevelTraffic& level : explanation.levels) {
    json.BeginObject().Key("count").Int(level.count).Key("bytesOut").Int(level.bytes_out);
    json.Key("binding").Bool(level.binding).Key("busiest");
    WriteDomain(level.busiest, json);
    json.EndObject();
  }
  json.EndArray();
}

void WriteNumbers(const char* key, const std::vector<int64_t>& numbers, JsonWriter& json) {
  json.Key(key).BeginArray();
  for (const int64_t number : numbers) json.Int(number);
  json.EndArray();
}

void WriteTraffic(const Traffic& traffic, JsonWriter& json) {
  json.Key("hostsPerGroup").Int(traffic.hosts_per_group).Key("groups").BeginArray();
  for (const Traffic::Group& group : traffic.groups) {
    json.BeginObject().Key("name").String(group.name).Key("hosts").Int(group.hosts);
    json.Key("devices").Int(group.devices).Key("capacity").Double(group.bytes_per_second);
    json.EndObject();
  }
  json.EndArray();
  WriteNumbers("matrix", traffic.matrix, json);
  json.Key("windowsPerStep").Int(traffic.windows_per_step).Key("steps").BeginArray();
  for (const Traffic::Step& step : traffic.steps) {
    json.BeginObject().Key("first").Int(step.first_window).Key("windows").Int(step.windows);
    json.Key("start").Double(step.start).Key("seconds").Double(step.seconds);
    json.Key("crossing").Int(step.bytes_crossing).Key("local").Int(step.bytes_local);
    WriteNumbers("in", step.bytes_in, json);
    WriteNumbers("out", step.bytes_out, json);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string HtmlPage(const CanonicalRequest& request, const Plan& plan,
                     const Explanation& explanation, const Traffic& traffic) {
  JsonWriter json;
  json.BeginObject();
  WriteSummary(request, plan.summary(), json);
  WriteExplanation(explanation, json);
  WriteTraffic(traffic, json);
  json.EndObject();
  return absl::StrReplaceAll(
      kPageTemplate,
      {{"/*STYLE*/", kPageStyle}, {"/*SCRIPT*/", kPageScript}, {"/*DATA*/", json.text()}});
}

}  // namespace remesh
