// SPDX-License-Identifier: Apache-2.0
#include "planner/report/html.h"

#include <vector>

#include "absl/strings/str_replace.h"
#include "planner/report/alike.h"
#include "planner/report/json_writer.h"
#include "planner/report/page.h"
#include "planner/report/scope.h"
#include "planner/report/traffic.h"
#include "planner/schedule/cost_model.h"

namespace remesh::planner {
namespace {

void WriteSides(const char* key, const Scope::Sides& sides, JsonWriter& json) {
  json.Key(key).BeginObject().Key("source").Int(sides.source).Key("target").Int(sides.target);
  json.Key("both").Int(sides.both).EndObject();
}

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

void WriteScope(const Scope& scope, std::string_view label, JsonWriter& json) {
  json.Key("label").String(label).Key("arrays").Int(scope.arrays).Key("bytes").Int(scope.bytes);
  WriteSides("devices", scope.devices, json);
  WriteSides("hosts", scope.hosts, json);
}

void WriteSummary(const CanonicalRequest& request, const PlanSummary& s, JsonWriter& json) {
  json.Key("summary").BeginObject();
  json.Key("fingerprint").String(request.fingerprint);
  json.Key("windowBytes").Int(request.request.options.window_bytes);
  json.Key("windowSecondsMin").Double(WindowSeconds(0));
  json.Key("totalBytes").Int(s.total_bytes).Key("keptBytes").Int(s.kept_bytes);
  json.Key("localBytes").Int(s.local_bytes).Key("crossingBytes").Int(s.crossing_bytes);
  json.Key("relayedBytes").Int(s.relayed_bytes).Key("bottleneckBytes").Int(s.bottleneck_bytes);
  json.Key("bottleneckSeconds").Double(s.bottleneck_seconds);
  json.Key("lowerBoundSeconds").Double(s.lower_bound_seconds);
  json.Key("routingBoundSeconds").Double(s.routing_bound_seconds);
  json.Key("quality").Double(s.quality).Key("predictedSeconds").Double(s.predicted_seconds);
  json.Key("scheduleSeconds").Double(s.schedule_seconds);
  json.Key("schedulePrice").Double(s.schedule_price);
  json.Key("fabricSeconds").Double(s.fabric_seconds);
  json.Key("fabricBoundSeconds").Double(s.fabric_bound_seconds);
  json.Key("maxPeakBytes").Int(s.max_peak_bytes).Key("windows").Int(s.windows);
  json.Key("messages").Int(s.messages).EndObject();
}

void WriteRange(const char* key, double least, double most, JsonWriter& json) {
  json.Key(key).BeginArray().Short(least).Short(most).EndArray();
}

void WriteAlike(const AlikeTraffic& kind, JsonWriter& json) {
  const DomainTraffic &least = kind.least, &most = kind.most;
  json.BeginObject().Key("host").Bool(least.kind == DomainTraffic::Kind::kHost);
  json.Key("level").Int(least.level).Key("count").Int(static_cast<int64_t>(kind.names.size()));
  json.Key("runs").BeginArray();
  constexpr size_t kRunsShown = 4;
  for (size_t i = 0; i < kind.runs.size() && i < kRunsShown; ++i) {
    const AlikeTraffic::Run& run = kind.runs[i];
    json.BeginArray().String(run.first).String(run.last).Int(run.count).EndArray();
  }
  json.EndArray().Key("binding").Bool(kind.binding);
  WriteRange("in", static_cast<double>(least.ingress_bytes),
             static_cast<double>(most.ingress_bytes), json);
  WriteRange("out", static_cast<double>(least.egress_bytes), static_cast<double>(most.egress_bytes),
             json);
  WriteRange("ingressSeconds", least.ingress_seconds, most.ingress_seconds, json);
  WriteRange("egressSeconds", least.egress_seconds, most.egress_seconds, json);
  WriteRange("capacityIn", least.ingress_bytes_per_second, most.ingress_bytes_per_second, json);
  WriteRange("capacityOut", least.egress_bytes_per_second, most.egress_bytes_per_second, json);
  json.EndObject();
}

void WriteExplanation(const Explanation& explanation, const std::vector<AlikeTraffic>& alike,
                      JsonWriter& json) {
  json.Key("certificate").String(explanation.certificate);
  json.Key("routingCertificate").String(explanation.routing_certificate);
  json.Key("bottleneck").String(explanation.bottleneck);
  json.Key("strategies").BeginArray();
  for (const StrategyCost& row : explanation.strategies) {
    json.BeginObject().Key("name").String(row.name).Key("how").String(row.how);
    json.Key("crossingBytes").Int(row.crossing_bytes);
    json.Key("bottleneckBytes").Int(row.bottleneck_bytes);
    json.Key("seconds").Double(row.seconds).Key("ratio").Double(row.ratio).EndObject();
  }
  json.EndArray().Key("levels").BeginArray();
  for (const LevelTraffic& level : explanation.levels) {
    json.BeginObject().Key("host").Bool(level.busiest.kind == DomainTraffic::Kind::kHost);
    json.Key("level").Int(level.busiest.level).Key("count").Int(level.count);
    json.Key("egressBytes").Int(level.egress_bytes).EndObject();
  }
  json.EndArray().Key("domains").BeginArray();
  for (const AlikeTraffic& kind : alike) {
    if (kind.least.kind == DomainTraffic::Kind::kDomain) WriteAlike(kind, json);
  }
  json.EndArray();
}

void WriteNumbers(const char* key, const std::vector<int64_t>& numbers, JsonWriter& json) {
  json.Key(key).BeginArray();
  for (const int64_t number : numbers) json.Short(static_cast<double>(number));
  json.EndArray();
}

// All racks, and the largest flows between them: [from, to, bytes].
void WriteRacks(const Traffic& traffic, JsonWriter& json) {
  json.Key("racks").BeginArray();
  for (const std::string& name : traffic.racks) json.String(name);
  json.EndArray().Key("rackFlows").BeginArray();
  constexpr size_t kFlowsShown = 12;
  int64_t inside = 0, between = 0;
  for (size_t i = 0; i < traffic.rack_flows.size(); ++i) {
    const Traffic::RackFlow& flow = traffic.rack_flows[i];
    (flow.from == flow.to && flow.from >= 0 ? inside : between) += flow.bytes;
    if (i >= kFlowsShown) continue;
    json.BeginArray().Int(flow.from).Int(flow.to).Int(flow.bytes).EndArray();
  }
  json.EndArray().Key("rackPairs").Int(static_cast<int64_t>(traffic.rack_flows.size()));
  json.Key("insideRacks").Int(inside).Key("betweenRacks").Int(between);
}

void WriteWho(const Traffic& traffic, JsonWriter& json) {
  json.Key("hostsPerGroup").Int(traffic.hosts_per_group).Key("groups").BeginArray();
  for (const Traffic::Group& group : traffic.groups) {
    json.BeginObject().Key("first").String(group.first).Key("last").String(group.last);
    json.Key("hosts").Int(group.hosts);
    json.Key("inside").Short(static_cast<double>(group.bytes_inside));
    json.Key("rack").Int(group.rack).EndObject();
  }
  json.EndArray().Key("kinds").BeginArray();
  for (const AlikeTraffic& kind : traffic.kinds) WriteAlike(kind, json);
  json.EndArray();
  WriteRacks(traffic, json);
  WriteNumbers("matrix", traffic.matrix, json);
  WriteNumbers("flows", traffic.flows, json);
}

// Writes two numbers for each kind, of its mean and its busiest host, as fractions of the step from
// 0 to 1.
void WriteBusy(const char* key, const std::vector<Traffic::Busy>& kinds, double seconds,
               JsonWriter& json) {
  json.Key(key).BeginArray();
  for (const Traffic::Busy& busy : kinds) {
    json.Short(seconds > 0 ? busy.mean_seconds / seconds : 0);
    json.Short(seconds > 0 ? busy.most_seconds / seconds : 0);
  }
  json.EndArray();
}

void WriteWhen(const Traffic& traffic, JsonWriter& json) {
  json.Key("windowsPerStep").Int(traffic.windows_per_step).Key("steps").BeginArray();
  for (const Traffic::Step& step : traffic.steps) {
    json.BeginObject().Key("first").Int(step.first_window).Key("windows").Int(step.windows);
    json.Key("start").Double(step.start).Key("seconds").Double(step.seconds);
    json.Key("crossing").Short(static_cast<double>(step.crossing_bytes));
    json.Key("inside").Short(static_cast<double>(step.bytes_inside));
    WriteBusy("in", step.in, step.seconds, json);
    WriteBusy("out", step.out, step.seconds, json);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string HtmlPage(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                     const Explanation& explanation, std::string_view label, Budget& budget) {
  const std::vector<AlikeTraffic> alike = AlikeOf(explanation.domains, binding);
  const Traffic traffic = TrafficOf(request, plan, binding, alike, {}, budget);
  const Scope scope = ScopeOf(request);
  JsonWriter json;
  json.BeginObject();
  WriteScope(scope, label, json);
  WriteSummary(request, plan.summary(), json);
  WriteExplanation(explanation, alike, json);
  WriteWho(traffic, json);
  WriteWhen(traffic, json);
  json.EndObject();
  return absl::StrReplaceAll(kPageTemplate, {{"/*TITLE*/", Escaped(TitleOf(scope, label))},
                                             {"/*STYLE*/", kPageStyle},
                                             {"/*SCRIPT*/", kPageScript},
                                             {"/*DATA*/", json.text()}});
}

}  // namespace remesh::planner
