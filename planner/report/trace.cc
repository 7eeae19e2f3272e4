// SPDX-License-Identifier: Apache-2.0
#include "planner/report/trace.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/network/links.h"
#include "planner/network/network.h"
#include "planner/report/flows.h"
#include "planner/report/json_writer.h"
#include "planner/schedule/cost_model.h"

namespace remesh::planner {
namespace {

constexpr int32_t kPlanProcess = 0;  // hosts follow, in the order of the caller's topology

// The place of an event: a process and one of its threads.
struct Track {
  int32_t process = 0;
  int32_t thread = 0;

  friend auto operator<=>(const Track&, const Track&) = default;
};

// Whether NICs are shown one by one, and how many windows are shown as one: a viewer cannot show
// too many.
struct Detail {
  bool by_nic = true;
  int32_t windows_per_step = 1;
};

Detail ChooseDetail(const Network& network, const Plan& plan, int64_t events_max) {
  const auto steps_for = [&](size_t links) {
    return std::max<int64_t>(events_max / std::max<int64_t>(2 * static_cast<int64_t>(links), 1), 1);
  };
  Detail detail;
  constexpr int64_t kStepsWanted = 64;  // above this, it is better to combine links than windows
  if (std::min<int64_t>(plan.summary().windows, kStepsWanted) > steps_for(network.nics.size())) {
    detail.by_nic = false;
  }
  const int64_t steps = steps_for(detail.by_nic ? network.nics.size() : network.hosts.size());
  detail.windows_per_step =
      static_cast<int32_t>((plan.summary().windows + steps - 1) / std::max<int64_t>(steps, 1));
  detail.windows_per_step = std::max(detail.windows_per_step, 1);
  return detail;
}

class TraceWriter {
 public:
  TraceWriter(const Network& network, const Binding& binding, const Detail& detail, double stretch)
      : network_(network),
        binding_(binding),
        detail_(detail),
        microseconds_(1e6 * stretch),
        links_(network),
        loads_(links_) {
    json_.BeginObject().Key("displayTimeUnit").String("ms").Key("traceEvents").BeginArray();
    NameProcess(kPlanProcess, "plan");
    NameThread({kPlanProcess, 0}, "windows");
  }

  // `flows` of windows [first, first + count), which last `seconds`.
  void AddStep(int32_t first, int32_t count, double seconds, absl::Span<const Flow> flows,
               bool arrows) {
    loads_.Clear();
    int64_t crossing = 0;
    std::map<std::pair<Track, Track>, int64_t> bits_between;
    for (const Flow& flow : flows) {
      loads_.Add(flow.from_device, flow.to_device, flow.bits);
      if (network_.host_of[flow.from_device] == network_.host_of[flow.to_device]) continue;
      crossing += flow.bits;
      if (arrows)
        bits_between[{TrackOf(flow.from_device, true), TrackOf(flow.to_device, false)}] +=
            flow.bits;
    }
    const std::string name = count == 1 ? absl::StrCat("window ", first)
                                        : absl::StrCat("windows ", first, "-", first + count - 1);
    Event("X", name, {kPlanProcess, 0}, clock_);
    json_.Key("dur").Double(seconds * microseconds_).EndObject();
    AddLinks(name);
    for (const auto& [tracks, bits] : bits_between) AddArrow(tracks.first, tracks.second);
    AddCounter(crossing);
    clock_ += seconds;
  }

  std::string Finish(const CanonicalRequest& request, const PlanSummary& summary) {
    AddCounter(0);
    json_.EndArray().Key("otherData").BeginObject();
    json_.Key("fingerprint").String(request.fingerprint);
    json_.Key("predictedSeconds").Double(summary.predicted_seconds);
    json_.Key("lowerBoundSeconds").Double(summary.lower_bound_seconds);
    json_.Key("windowsPerEvent").Int(detail_.windows_per_step);
    json_.EndObject().EndObject();
    return json_.Take();
  }

 private:
  // The thread of a device's NIC, or of all NICs of its host when there are too many.
  Track TrackOf(int32_t device, bool egress) { return NicTrack(network_.nic_of[device], egress); }

  Track NicTrack(int32_t nic, bool egress) {
    const int32_t host = network_.nics[nic].host;
    const std::vector<int32_t>& nics = network_.hosts[host].nics;
    const auto index =
        static_cast<int32_t>(std::find(nics.begin(), nics.end(), nic) - nics.begin());
    const int32_t number = detail_.by_nic ? index : 0;
    const Track track{ProcessOf(host), 2 * number + (egress ? 0 : 1)};
    const std::string which = detail_.by_nic ? absl::StrCat("NIC ", number) : "NICs";
    Declare(host, track, absl::StrCat(which, egress ? " out" : " in"));
    return track;
  }

  Track FabricTrack(int32_t device) {
    const int32_t host = network_.host_of[device];
    const Track track{ProcessOf(host),
                      2 * static_cast<int32_t>(network_.hosts[host].nics.size()) + 2};
    Declare(host, track, "inside");
    return track;
  }

  // Viewers list processes by number, or by the index that NameProcess() gives.
  int32_t ProcessOf(int32_t host) const { return binding_.host_indices[host] + 1; }

  void Declare(int32_t host, Track track, const std::string& thread) {
    if (!threads_.insert(track).second) return;
    if (processes_.insert(track.process).second) {
      NameProcess(track.process, binding_.host_names[host]);
    }
    NameThread(track, thread);
  }

  void NameProcess(int32_t process, const std::string& name) {
    Event("M", "process_name", {process, 0}, 0);
    json_.Key("args").BeginObject().Key("name").String(name).EndObject().EndObject();
    Event("M", "process_sort_index", {process, 0}, 0);
    json_.Key("args").BeginObject().Key("sort_index").Int(process).EndObject().EndObject();
  }

  void NameThread(Track track, const std::string& name) {
    Event("M", "thread_name", track, 0);
    json_.Key("args").BeginObject().Key("name").String(name).EndObject().EndObject();
    Event("M", "thread_sort_index", track, 0);
    json_.Key("args").BeginObject().Key("sort_index").Int(track.thread).EndObject().EndObject();
  }

  // Opens an event. The caller adds its other fields and closes it.
  void Event(const char* phase, const std::string& name, Track track, double seconds) {
    json_.BeginObject().Key("ph").String(phase).Key("name").String(name);
    json_.Key("pid").Int(track.process).Key("tid").Int(track.thread);
    json_.Key("ts").Double(seconds * microseconds_);
  }

  // Adds one event for each track that the step uses, as long as its busiest link.
  void AddLinks(const std::string& name) {
    std::map<Track, std::pair<double, int64_t>> busy;  // seconds, bits
    for (const int32_t i : loads_.used()) {
      const Link& link = links_.all()[i];
      if (link.kind == Link::Kind::kDomain) continue;
      if (link.kind == Link::Kind::kFabric && link.egress) continue;  // counted at the receiver
      const Track track = link.kind == Link::Kind::kNic ? NicTrack(link.index, link.egress)
                                                        : FabricTrack(link.index);
      auto& [seconds, bits] = busy[track];
      seconds = std::max(seconds, loads_.SecondsOf(i));
      bits += loads_.BitsOf(i);
    }
    for (const auto& [track, load] : busy) {
      Event("X", name, track, clock_);
      json_.Key("dur").Double(load.first * microseconds_).Key("args").BeginObject();
      json_.Key("bytes").Int((load.second + 7) / 8).EndObject().EndObject();
    }
  }

  // Adds an arrow. Both of its ends lie inside events that start with the step.
  void AddArrow(Track from, Track to) {
    ++arrows_;
    Event("s", "transfer", from, clock_);
    json_.Key("cat").String("transfer").Key("id").Int(arrows_).EndObject();
    Event("f", "transfer", to, clock_);
    json_.Key("cat").String("transfer").Key("id").Int(arrows_).Key("bp").String("e").EndObject();
  }

  void AddCounter(int64_t bits) {
    Event("C", "bytes in flight", {kPlanProcess, 0}, clock_);
    json_.Key("args").BeginObject().Key("between hosts").Int((bits + 7) / 8);
    json_.EndObject().EndObject();
  }

  const Network& network_;
  const Binding& binding_;
  const Detail detail_;
  const double microseconds_;  // of the trace, per second of the windows
  const Links links_;
  LinkLoads loads_;
  JsonWriter json_;
  std::set<Track> threads_;  // named
  std::set<int32_t> processes_;
  double clock_ = 0;
  int64_t arrows_ = 0;
};

// Whether there are at most `arrows_max` arrows: one for each pair of devices on different hosts
// and window.
bool FewArrows(const Plan& plan, const Network& network, int64_t arrows_max, Budget& budget) {
  const int64_t messages = plan.summary().messages;  // includes those inside hosts
  if (messages <= arrows_max) return true;
  if (messages > 16 * arrows_max) return false;
  int64_t arrows = 0;
  const auto count = [&](int32_t, absl::Span<const Flow> flows) {
    for (const Flow& flow : flows) {
      arrows += network.host_of[flow.from_device] != network.host_of[flow.to_device];
    }
  };
  ForEachWindow(plan, count, budget);
  return arrows <= arrows_max;
}

}  // namespace

std::string ChromeTrace(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                        const TraceOptions& options, Budget& budget) {
  const Network network = MakeNetwork(request.request);
  const Links links(network);
  const Detail detail = ChooseDetail(network, plan, options.events_max);
  const bool arrows = FewArrows(plan, network, options.arrows_max, budget);
  TraceWriter writer(network, binding, detail, StretchOf(plan, links, budget));
  LinkLoads window_loads(links);
  std::vector<Flow> step_flows;
  double step_seconds = 0;
  int32_t step = 0;
  const auto flush = [&] {
    if (step_flows.empty()) return;
    const int32_t first = step * detail.windows_per_step;
    const int32_t count = std::min(detail.windows_per_step, plan.summary().windows - first);
    writer.AddStep(first, count, step_seconds, step_flows, arrows);
    step_flows.clear();
    step_seconds = 0;
  };
  const auto add = [&](int32_t window, absl::Span<const Flow> flows) {
    if (window / detail.windows_per_step != step) flush();
    step = window / detail.windows_per_step;
    window_loads.Clear();
    for (const Flow& flow : flows) {
      window_loads.Add(flow.from_device, flow.to_device, flow.bits);
    }
    step_seconds += WindowSeconds(window_loads.seconds());
    step_flows.insert(step_flows.end(), flows.begin(), flows.end());
  };
  ForEachWindow(plan, add, budget);
  flush();
  return writer.Finish(request, plan.summary());
}

}  // namespace remesh::planner
