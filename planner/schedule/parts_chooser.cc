// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/parts_chooser.h"

#include <algorithm>

namespace remesh::planner {
namespace {

// The least saving of parts that are made only to fill the pipeline of relays sooner, as a fraction
// of the time.
constexpr double kSavingMin = 1.0 / 64;

}  // namespace

PartsChooser::Choice PartsChooser::Choose(int64_t least, int64_t most, int32_t hops) {
  Try(least);
  // No number of parts is faster than the busiest link.
  const Prediction& first = tried_.front().prediction;
  const bool enough = limits_.IsGood(first) && first.seconds <= limits_.bound() * (1 + kSavingMin);
  if (hops == 1 || enough) return tried_.front();
  for (int64_t k = std::max<int64_t>(least + 1, hops); k <= most && !budget_.SpentNow();
       k += (k + 3) / 4) {
    if (any_good_ && cost_.LeastSeconds(static_cast<int32_t>(k)) > best_) break;
    Try(k);
  }
  const auto found = std::find_if(tried_.begin(), tried_.end(),
                                  [&](const Choice& one) { return IsEnough(one.prediction); });
  if (found == tried_.begin()) return *found;
  return Fewest((found - 1)->parts, *found);
}

bool PartsChooser::IsEnough(const Prediction& one) const {
  return limits_.IsGood(one) == any_good_ && one.seconds <= best_ * (1 + kSavingMin);
}

void PartsChooser::Try(int64_t parts) {
  const Prediction one = cost_.Predict(static_cast<int32_t>(parts));
  tried_.push_back({parts, one});
  if (limits_.IsGood(one) < any_good_) return;
  best_ = limits_.IsGood(one) > any_good_ ? one.seconds : std::min(best_, one.seconds);
  any_good_ = limits_.IsGood(one);
}

// The fewest parts in (few, enough.parts] that are enough, give or take one in 32.
PartsChooser::Choice PartsChooser::Fewest(int64_t few, Choice enough) const {
  while (enough.parts - few > std::max<int64_t>(1, few / 32) && !budget_.SpentNow()) {
    const int64_t middle = few + (enough.parts - few) / 2;
    const Prediction one = cost_.Predict(static_cast<int32_t>(middle));
    if (IsEnough(one)) {
      enough = {middle, one};
    } else {
      few = middle;
    }
  }
  return enough;
}

}  // namespace remesh::planner
