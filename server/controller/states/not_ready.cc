// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/not_ready.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "server/controller/states/host_writes.h"
#include "server/controller/states/replicas.h"
#include "server/controller/states/write_once.h"

namespace remesh::server {
namespace {

using Hosts = google::protobuf::RepeatedPtrField<std::string>;

// "" unless it is the only reason that there is.
std::string UnsealedIn(const v1::State& state) {
  constexpr int kNamed = 10;
  const Hosts& unsealed = state.unsealed_hosts();
  if (unsealed.empty() || !state.lost_hosts().empty() || !state.newer_hosts().empty()) return "";
  const int named = std::min(kNamed, unsealed.size());
  return absl::StrCat("; not sealed on ",
                      absl::StrJoin(unsealed.begin(), unsealed.begin() + named, ", "),
                      named < unsealed.size() ? ", ..." : "");
}

// The writes that differ, or the one that the missing hosts must name.
std::string WritesIn(const v1::State& state, const std::string& writes) {
  if (!state.host_writes().empty()) return absl::StrCat("; ", writes);
  if (state.write().empty() || state.unsealed_hosts().empty()) return "";
  return absl::StrCat("; its other shards are of write ", absl::CHexEscape(state.write()));
}

// The move that repairs a DEGRADED state.
std::string RepairOf(const std::string& state, const std::vector<int64_t>& devices) {
  constexpr size_t kNamed = 256;
  const std::string ids = devices.size() <= kNamed ? absl::StrJoin(devices, ",") : "IDS";
  return absl::StrCat("; the other hosts hold all of it: remeshctl reshard ", state,
                      " -f TARGETS --lose-absent-hosts (or --lost-devices ", ids,
                      ") moves it to hosts that are there",
                      devices.size() <= kNamed ? "" : " (IDS: all devices of the hosts away)");
}

// What a state waits for that is written once.
std::string OnceIn(const StateEntry& state, const WorkerRegistry& workers) {
  constexpr size_t kNamed = 10;
  if (state.once_commit == OnceCommit::kOnItsWay) return "; its commit is on its way to the disk";
  const std::vector<std::string> old = TooOldHosts(state, workers);
  if (old.empty()) return "";
  const size_t named = std::min(kNamed, old.size());
  return absl::StrCat("; it is written once, which the workers of ",
                      absl::StrJoin(old.begin(), old.begin() + named, ", "),
                      named < old.size() ? ", ..." : "", " do not know: upgrade them");
}

}  // namespace

absl::Status NotReady(const StateEntry& state, const WorkerRegistry& workers) {
  const v1::State seen = ToProto(state, workers);
  const std::string phase = v1::State::Phase_Name(seen.phase());
  const std::string lost = absl::StrJoin(seen.lost_hosts(), ", ");
  const std::string newer = absl::StrJoin(seen.newer_hosts(), ", ");
  const std::string writes = seen.host_writes().empty() ? "" : Describe(WritesOf(state, workers));
  ErrorInfo info{.reason = "STATE_NOT_READY",
                 .metadata = {{"state", state.name()},
                              {"phase", phase},
                              {"lost_hosts", lost},
                              {"newer_hosts", newer},
                              {"writes", writes}}};
  const std::string unsealed = UnsealedIn(seen);
  std::string why = absl::StrCat(unsealed, WritesIn(seen, writes), OnceIn(state, workers));
  if (!unsealed.empty() && why == unsealed)
    absl::StrAppend(&why, ": run remeshctl seal there first");
  if (!lost.empty()) absl::StrAppend(&why, "; away, or back without its shards: ", lost);
  if (!newer.empty()) {
    absl::StrAppend(&why, "; a newer generation than the journal knows is on ", newer,
                    ": see remeshctl workers owed");
  }
  if (seen.phase() == v1::State::DEGRADED) {
    const std::vector<int64_t> devices =
        DevicesOf(*state.placed, {seen.lost_hosts().begin(), seen.lost_hosts().end()});
    absl::StrAppend(&why, RepairOf(state.name(), devices));
    info.metadata["lost_device_ids"] = absl::StrJoin(devices, ",");
  }
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat(state.name(), " is ", phase, ", not READY", why), info);
}

}  // namespace remesh::server
