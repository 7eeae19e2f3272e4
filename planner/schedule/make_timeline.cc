// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/make_timeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/schedule/memory.h"
#include "planner/schedule/windows.h"

namespace remesh::planner {
namespace {

// So many parts that source memory is freed about as fast as target memory is taken.
constexpr int64_t kDonationParts = 64;
// The most parts that are tried to keep within a limit on memory.
constexpr int64_t kPartsMax = 4096;

absl::Status MemoryLimitExceeded(int64_t limit, int64_t needed) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("options.memory_limit_bytes: value \"", limit, "\" is below the ", needed,
                   " bytes needed"),
      {"MEMORY_LIMIT",
       {{"memory_limit_bytes", absl::StrCat(limit)}, {"needed_bytes", absl::StrCat(needed)}}});
}

int64_t Most(const std::vector<int64_t>& peak_bytes) {
  return *std::max_element(peak_bytes.begin(), peak_bytes.end());
}

}  // namespace

absl::Status CheckPeaks(const ReshardRequest& canonical, const std::vector<int64_t>& peak_bytes) {
  const int64_t limit = canonical.options.memory_limit_bytes;
  const int64_t peak = Most(peak_bytes);
  return limit == 0 || peak <= limit ? absl::OkStatus() : MemoryLimitExceeded(limit, peak);
}

absl::StatusOr<TimedMoves> MakeTimeline(const ReshardRequest& canonical, const Atoms& atoms,
                                        Moves moves, const Network& network, Budget& budget) {
  const PlanOptions& options = canonical.options;
  std::vector<Move> all;
  if (options.memory_limit_bytes > 0) all = moves.moves;
  int64_t needed = 0;
  for (int64_t parts = options.donate ? kDonationParts : 1;;) {
    // Without a limit on memory no narrower windows are tried, so the moves are not needed again.
    if (options.memory_limit_bytes > 0) moves.moves = all;
    absl::StatusOr<Timeline> timeline =
        ScheduleWindows(moves, atoms, network, options.window_bytes, parts, budget);
    RETURN_IF_ERROR(budget.Check());
    if (needed > 0 && !timeline.ok()) break;
    RETURN_IF_ERROR(timeline.status());
    timeline->peak_bytes =
        PeakBytes(canonical, network, atoms, moves.segments, *timeline, kPeakStepsMax, budget);
    if (CheckPeaks(canonical, timeline->peak_bytes).ok()) {
      return TimedMoves{.segments = std::move(moves.segments), .timeline = *std::move(timeline)};
    }
    RETURN_IF_ERROR(budget.Check());
    const int64_t peak = Most(timeline->peak_bytes);
    needed = needed == 0 ? peak : std::min(needed, peak);
    while (parts <= timeline->schedule.parts) parts *= 2;
    if (parts > kPartsMax) break;
  }
  return MemoryLimitExceeded(options.memory_limit_bytes, needed);
}

}  // namespace remesh::planner
