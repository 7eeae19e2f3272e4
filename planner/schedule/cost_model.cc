// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/cost_model.h"

#include <algorithm>

#include "planner/schedule/resources.h"

namespace remesh {

Cost Estimate(const PlanDraft& draft, const Network& network) {
  const Resources resources(network);
  std::vector<int64_t> bits(resources.count(), 0);
  for (const Move& move : draft.moves) {
    resources.ForEachUsed(move, [&](int32_t r) { bits[r] += move.hi - move.lo; });
  }
  Cost cost;
  for (int32_t r = 0; r < resources.count(); ++r) {
    const double seconds = resources.SecondsFor(r, static_cast<double>(bits[r]));
    if (resources.IsFabric(r)) {
      cost.fabric_seconds = std::max(cost.fabric_seconds, seconds);
    } else if (seconds > cost.bottleneck_seconds) {
      cost.bottleneck_seconds = seconds;
      cost.bottleneck_bytes = (bits[r] + 7) / 8;
      cost.bottleneck = resources.NameOf(r);
    }
  }
  return cost;
}

double WindowSeconds(double busiest_seconds) {
  return std::max(busiest_seconds, (busiest_seconds + kHandOverSeconds) / 2);
}

namespace {

// Adds stage after stage and keeps the seconds that the busiest resource would take for all of
// them.
class RunningMax {
 public:
  explicit RunningMax(const Resources& resources)
      : resources_(resources), bits_(resources.count(), 0) {}

  template <typename Loads>
  double Add(const Loads& loads) {
    for (const auto& load : loads) {
      bits_[load.resource] += load.bits;
      seconds_ = std::max(seconds_, resources_.SecondsFor(
                                        load.resource, static_cast<double>(bits_[load.resource])));
    }
    return seconds_;
  }

 private:
  const Resources& resources_;
  std::vector<int64_t> bits_;
  double seconds_ = 0;
};

}  // namespace

ScheduleCost::ScheduleCost(const PlanDraft& draft, const Network& network, int32_t rounds)
    : resources_(network), rounds_(rounds) {
  for (Round& round : rounds_) round.loads.resize(draft.schedule.stages);
  for (const Move& move : draft.moves) {
    resources_.ForEachUsed(move, [&](int32_t resource) {
      rounds_[move.round].loads[move.stage].push_back({resource, move.hi - move.lo});
    });
  }
  for (Round& round : rounds_) {
    RunningMax filling(resources_);
    for (const StageLoads& stage : round.loads) round.filling.push_back(filling.Add(stage));
    RunningMax draining(resources_);
    for (size_t l = round.loads.size(); --l > 0;) {
      round.draining.push_back(draining.Add(round.loads[l]));
    }
  }
}

double ScheduleCost::SteadySeconds() const {
  double sum = 0;
  for (const Round& round : rounds_) sum += round.filling.back();
  return sum;
}

double ScheduleCost::Seconds(int32_t slices) const {
  double sum = 0;
  for (const Round& round : rounds_) {
    const int32_t stages = static_cast<int32_t>(round.loads.size());
    const int32_t ramp = std::min(slices, stages) - 1;
    for (int32_t c = 0; c < ramp; ++c) {
      sum += WindowSeconds(round.filling[c] / slices) + WindowSeconds(round.draining[c] / slices);
    }
    if (slices >= stages) {
      sum += (slices - stages + 1) * WindowSeconds(round.filling.back() / slices);
      continue;
    }
    for (int32_t first = 0; first + slices <= stages; ++first) {
      RunningMax full(resources_);
      double seconds = 0;
      for (int32_t l = first; l < first + slices; ++l) seconds = full.Add(round.loads[l]);
      sum += WindowSeconds(seconds / slices);
    }
  }
  return sum;
}

}  // namespace remesh
