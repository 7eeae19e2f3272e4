// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/cost_model.h"

#include <algorithm>

namespace remesh::planner {

Cost Estimate(const std::vector<Move>& moves, const Links& links, Budget& budget) {
  std::vector<int64_t> bits(links.count(), 0);
  for (const Move& move : moves) {
    if (budget.Spent()) return {};
    links.ForEachOnPath(move.from_device, move.to_device,
                        [&](int32_t link) { bits[link] += move.hi - move.lo; });
  }
  Cost cost;
  for (int32_t i = 0; i < links.count(); ++i) {
    const double seconds = links.SecondsFor(i, static_cast<double>(bits[i]));
    if (links.IsFabric(i)) {
      cost.fabric_seconds = std::max(cost.fabric_seconds, seconds);
    } else if (seconds > cost.bottleneck_seconds) {
      cost.bottleneck_seconds = seconds;
      cost.bottleneck_bytes = (bits[i] + 7) / 8;
      cost.bottleneck = links.NameOf(i);
    }
  }
  return cost;
}

double WindowSeconds(double busiest_seconds) {
  return std::max(busiest_seconds, (busiest_seconds + kHandOverSeconds) / 2);
}

namespace {

// Adds hop after hop and keeps the seconds that the busiest link takes for all of them.
class RunningMax {
 public:
  explicit RunningMax(const Links& links) : links_(links), bits_(links.count(), 0) {}

  template <typename Loads>
  double Add(const Loads& loads) {
    for (const auto& load : loads) {
      bits_[load.link] += load.bits;
      seconds_ =
          std::max(seconds_, links_.SecondsFor(load.link, static_cast<double>(bits_[load.link])));
    }
    return seconds_;
  }

 private:
  const Links& links_;
  std::vector<int64_t> bits_;
  double seconds_ = 0;
};

}  // namespace

ScheduleCost::ScheduleCost(const std::vector<Move>& moves, int32_t rounds, int32_t hops,
                           const Links& links, Budget& budget)
    : links_(links), budget_(budget), rounds_(rounds) {
  for (Round& round : rounds_) {
    if (budget.Spent()) return;
    round.loads.resize(hops);
  }
  for (const Move& move : moves) {
    if (budget.Spent()) return;
    HopLoads& loads = rounds_[move.round].loads[move.hop];
    links.ForEachOnPath(move.from_device, move.to_device, [&](int32_t link) {
      loads.push_back({link, move.hi - move.lo});
    });
  }
  for (Round& round : rounds_) {
    if (budget.SpentNow()) return;
    RunningMax filling(links_);
    for (const HopLoads& hop : round.loads) {
      if (budget.Spent()) return;
      round.filling.push_back(filling.Add(hop));
    }
    RunningMax draining(links_);
    for (size_t l = round.loads.size(); --l > 0;) {
      if (budget.Spent()) return;
      round.draining.push_back(draining.Add(round.loads[l]));
    }
  }
}

double ScheduleCost::SteadySeconds() const {
  double sum = 0;
  for (const Round& round : rounds_) sum += round.filling.back();
  return sum;
}

double ScheduleCost::Seconds(int32_t parts) const {
  double sum = 0;
  for (const Round& round : rounds_) {
    if (budget_.Spent()) return sum;
    const int32_t hops = static_cast<int32_t>(round.loads.size());
    const int32_t ramp = std::min(parts, hops) - 1;
    for (int32_t c = 0; c < ramp; ++c) {
      sum += WindowSeconds(round.filling[c] / parts) + WindowSeconds(round.draining[c] / parts);
    }
    if (parts >= hops) {
      sum += (parts - hops + 1) * WindowSeconds(round.filling.back() / parts);
      continue;
    }
    for (int32_t first = 0; first + parts <= hops && !budget_.Spent(); ++first) {
      RunningMax full(links_);
      double seconds = 0;
      for (int32_t l = first; l < first + parts && !budget_.Spent(); ++l) {
        seconds = full.Add(round.loads[l]);
      }
      sum += WindowSeconds(seconds / parts);
    }
  }
  return sum;
}

}  // namespace remesh::planner
