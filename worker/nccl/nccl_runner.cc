// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_runner.h"

#include <algorithm>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

constexpr auto kAskEvery = std::chrono::microseconds(200);

std::set<int> DevicesOf(const NcclWindow& window, const std::vector<NcclLocal>& locals) {
  std::set<int> devices;
  for (const NcclEntry& entry : window.entries) devices.insert(locals[entry.local].device);
  return devices;
}

}  // namespace

NcclRunner::NcclRunner(const NcclApi* api, GpuStreams* streams, const NcclLimits& limits, int ranks,
                       std::vector<NcclLocal> locals, std::chrono::milliseconds connect)
    : streams_(streams),
      connect_(connect),
      comms_(api, streams, limits, ranks, std::move(locals)) {}

void NcclRunner::Expect(std::chrono::milliseconds within) {
  expected_ = std::chrono::steady_clock::now() + within;
}

absl::Status NcclRunner::Init(std::span<const nccl::UniqueId> ids) {
  starting_ = true;
  Expect(connect_);
  return comms_.Init(ids);
}

absl::Status NcclRunner::Start(NcclWindow window) {
  REMESH_CHECK(!starting_);
  starting_ = used_ = true;
  window_ = std::move(window);
  Expect(window_->timeout + (window_->first ? connect_ : std::chrono::milliseconds(0)));
  return comms_.Post(window_->entries);
}

// The kernels are on the streams only now, so an event recorded here says when they are done.
absl::Status NcclRunner::FinishStart() {
  starting_ = false;
  if (!window_.has_value()) return absl::OkStatus();  // it was Init()
  Launched& launched = launched_.emplace_back();
  launched.window = *std::exchange(window_, std::nullopt);
  for (const int device : DevicesOf(launched.window, comms_.locals())) {
    ASSIGN_OR_RETURN(const GpuStreams::Event event, streams_->Record(device));
    launched.events.emplace_back(device, event);
  }
  Expect(launched.window.timeout);
  return absl::OkStatus();
}

absl::StatusOr<bool> NcclRunner::FirstIsDone() {
  if (launched_.empty()) return false;
  auto& events = launched_.front().events;
  while (!events.empty()) {
    const auto [device, event] = events.back();
    ASSIGN_OR_RETURN(const bool passed, streams_->Passed(device, event));
    if (!passed) return false;
    events.pop_back();
  }
  return true;
}

absl::StatusOr<std::vector<NcclWindow>> NcclRunner::Step() {
  // Asked while kernels run, too: that is how NCCL reports that a peer is lost.
  ASSIGN_OR_RETURN(const bool ready, comms_.Ready());
  if (starting_ && ready) RETURN_IF_ERROR(FinishStart());
  std::vector<NcclWindow> done;
  while (true) {
    ASSIGN_OR_RETURN(const bool first_is_done, FirstIsDone());
    if (!first_is_done) break;
    done.push_back(std::move(launched_.front().window));
    launched_.pop_front();
    Expect(done.back().timeout);
  }
  RETURN_IF_ERROR(CheckOverdue());
  return done;
}

absl::Status NcclRunner::CheckOverdue() const {
  if (idle() || std::chrono::steady_clock::now() < expected_) return absl::OkStatus();
  if (launched_.empty() && !window_.has_value()) {  // it is Init()
    return MakeError(absl::StatusCode::kUnavailable,
                     "NCCL did not connect in time, though all hosts were there when it began",
                     {"NCCL_TIMEOUT", {{"phase", "connect"}}});
  }
  const std::string window =
      absl::StrCat(launched_.empty() ? window_->window : launched_.front().window.window);
  const std::string phase = launched_.empty() ? "start" : "exchange";
  return MakeError(absl::StatusCode::kUnavailable,
                   absl::StrCat("window ", window, " did not ", launched_.empty() ? "start" : "end",
                                " in time: a peer is stopped, waits for a host that it reaches "
                                "by another link, or has another idea of the window"),
                   {"NCCL_TIMEOUT", {{"phase", phase}, {"window", window}}});
}

void NcclRunner::Abort() {
  comms_.AbortAll();
  if (!used_) return;  // another group may be using the streams
  for (const NcclLocal& local : comms_.locals()) {
    // Nothing runs on a device in error.
    const absl::StatusOr<GpuStreams::Event> event = streams_->Record(local.device);
    if (!event.ok()) continue;
    while (true) {
      const absl::StatusOr<bool> passed = streams_->Passed(local.device, *event);
      if (!passed.ok() || *passed) break;
      std::this_thread::sleep_for(kAskEvery);
    }
  }
}

std::vector<NcclWindow> NcclRunner::TakeRest() {
  std::vector<NcclWindow> rest;
  for (Launched& launched : launched_) rest.push_back(std::move(launched.window));
  launched_.clear();
  if (window_.has_value()) rest.push_back(*std::exchange(window_, std::nullopt));
  return rest;
}

}  // namespace remesh::worker
