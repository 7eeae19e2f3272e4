// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/windows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/network/links.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/price_limits.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/scheduler.h"
#include "planner/schedule/window_parts.h"

namespace remesh::planner {
namespace {

// A message below this is not worth cutting further.
constexpr int64_t kPartBitsMin = int64_t{8} << 18;  // 256 KiB

// Most hops in a row: more than any cluster needs; a packed move can count them.
constexpr int32_t kHopsMax = 32000;

absl::Status TooManyWindows(int64_t window_bytes) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("options.window_bytes: value \"", window_bytes, "\" would take more than ",
                   kWindowsMax, " windows"),
      {"TOO_MANY_WINDOWS",
       {{"window_bytes", absl::StrCat(window_bytes)}, {"limit", absl::StrCat(kWindowsMax)}}});
}

// The schedule as far as the moves alone determine it. The result must not be used once the budget
// is spent.
Schedule BareSchedule(const Moves& moves, const Busiest& busiest, int64_t window_bits,
                      Budget& budget) {
  Schedule schedule;
  for (const Move& move : moves.moves) {
    if (budget.Spent()) return schedule;
    schedule.hops = std::max<int32_t>(schedule.hops, move.hop + 1);
  }
  schedule.min_part_bits = std::max<int64_t>(
      1, std::min(kPartBitsMin, window_bits / 4 / std::max<int64_t>(1, busiest.moves)));
  schedule.slack_bits = std::min(moves.slack_bits, schedule.min_part_bits / 8);
  return schedule;
}

}  // namespace

int64_t EffectiveWindowBytes(int64_t window_bytes) {
  return std::min(window_bytes, int64_t{1} << 50);
}

absl::StatusOr<Timeline> ScheduleWindows(Moves& moves, const Atoms& atoms, const Network& network,
                                         int64_t window_bytes, int64_t parts_min, Budget& budget) {
  const int64_t window_bits = EffectiveWindowBytes(window_bytes) * 8;
  const Busiest busiest = FindBusiest(network, moves.moves, budget);
  RETURN_IF_ERROR(budget.Check());
  const Schedule schedule = BareSchedule(moves, busiest, window_bits, budget);
  RETURN_IF_ERROR(budget.Check());
  if (schedule.hops > kHopsMax) return TooManyWindows(window_bytes);
  const Links links(network);
  PairList list = CollectPairs(moves.moves, budget);
  RETURN_IF_ERROR(budget.Check());
  const HeavyPairs heavy = CountHeavyPairs(list.pairs, network, budget);
  RETURN_IF_ERROR(budget.Check());
  const Cost cost = Estimate(moves.moves, links, budget);
  RETURN_IF_ERROR(budget.Check());
  const PriceLimits limits(std::max(cost.bottleneck_seconds, cost.fabric_seconds), schedule.hops);
  const WindowParts parts(
      schedule, busiest,
      {.window_bits = window_bits, .parts_min = parts_min, .is_short = limits.is_short()});
  std::optional<Timeline> timeline =
      Scheduler(moves, std::move(list), atoms, links, schedule, parts, window_bits, limits, budget)
          .Run(heavy);
  RETURN_IF_ERROR(budget.Check());
  if (!timeline) return TooManyWindows(window_bytes);
  return *std::move(timeline);
}

}  // namespace remesh::planner
