// SPDX-License-Identifier: Apache-2.0
#include "planner/validate.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/network/network.h"
#include "planner/order/free_order.h"
#include "planner/schedule/windows.h"
#include "planner/values/box_union.h"

namespace remesh::planner {
namespace {

using Key = std::pair<int32_t, int32_t>;  // array, device

// Too little when the budget is spent.
int64_t VolumeIn(absl::Span<const Box> boxes, const Box& frame, Budget& budget) {
  constexpr size_t kComparedPerAsk = 256;
  int64_t volume = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (i % kComparedPerAsk == 0 && budget.Spent()) break;
    if (const auto common = Intersect(boxes[i], frame)) volume += common->element_count();
  }
  return volume;
}

int64_t VolumeOf(absl::Span<const Box> boxes) {
  int64_t volume = 0;
  for (const Box& box : boxes) volume += box.element_count();
  return volume;
}

std::string Shown(const Transfer& t) {
  return absl::StrCat("window ", t.window, " array ", t.array, " ", t.box.DebugString(), " ",
                      t.from_device, "->", t.to_device);
}

// Replays the expanded transfers window by window against what every device holds.
class Replay {
 public:
  // `request`: with the plan's target order.
  Replay(ReshardRequest request, const Plan& plan, Budget& budget)
      : request_(std::move(request)),
        plan_(plan),
        budget_(budget),
        network_(MakeNetwork(request_)) {}

  absl::Status Run() {
    absl::Status status;
    plan_.ForEachTransferFrom(0, [&](const Transfer& t) {
      if (status.ok()) status = Take(t);
      return status.ok() && !budget_.Spent();
    });
    RETURN_IF_ERROR(budget_.Check());
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(CloseWindow());
    status = CheckTargets();
    RETURN_IF_ERROR(budget_.Check());
    RETURN_IF_ERROR(status);
    return CheckMemory();
  }

 private:
  absl::Status Take(const Transfer& t) {
    if (t.window < window_) return Bad(t, "goes back in time");
    if (t.window != window_) {
      RETURN_IF_ERROR(CloseWindow());
      window_ = t.window;
    }
    if (t.box.empty()) return Bad(t, "is empty");
    for (int32_t device : {t.from_device, t.to_device}) {
      if (!network_.named[device] || network_.lost[device])
        return Bad(t, "uses a device that may not carry");
    }
    RETURN_IF_ERROR(CheckSender(t));
    if (t.to_space == Space::kSource) return Bad(t, "writes into the source");
    if (t.to_space == Space::kTarget) RETURN_IF_ERROR(CheckReceiver(t));
    arriving_.push_back(t);
    return Account(t);
  }

  absl::Status CheckSender(const Transfer& t) {
    const Key key = {t.array, t.from_device};
    if (t.from_space != Space::kSource) {
      const std::vector<Box>& held =
          t.from_space == Space::kTarget ? targets_[key] : staging_[{key, t.tape}];
      const bool arrived = VolumeIn(held, t.box, budget_) == t.box.element_count();
      return arrived ? absl::OkStatus() : Bad(t, "sends what has not arrived");
    }
    const Placement& source = request_.arrays[t.array].source;
    const Tile* tile = TileAt(source, t.from_device);
    const bool held =
        tile != nullptr && std::any_of(tile->boxes.begin(), tile->boxes.end(),
                                       [&](const Box& b) { return b.Contains(t.box); });
    return held ? absl::OkStatus() : Bad(t, "sends what its source shard does not hold");
  }

  absl::Status CheckReceiver(const Transfer& t) {
    const ArraySpec& array = request_.arrays[t.array];
    const Tile* tile = TileAt(array.target, t.to_device);
    const bool needed =
        tile != nullptr && std::any_of(tile->boxes.begin(), tile->boxes.end(),
                                       [&](const Box& b) { return b.Contains(t.box); });
    if (!needed) return Bad(t, "brings what the target shard does not need");
    const Tile* held = TileAt(array.source, t.to_device);
    if (held != nullptr && t.from_device != t.to_device && held->subgroup == tile->subgroup &&
        VolumeIn(held->boxes, t.box, budget_) > 0) {
      return Bad(t, "brings what the device holds");
    }
    const Tile* from = TileAt(array.source, t.from_device);
    if (t.from_space == Space::kSource && from->subgroup != tile->subgroup) {
      return Bad(t, "crosses subgroups");
    }
    return absl::OkStatus();
  }

  absl::Status Account(const Transfer& t) {
    const int64_t bits = t.box.element_count() * BitWidth(request_.arrays[t.array].element_type);
    in_flight_[t.from_device] += bits;
    if (t.from_device == t.to_device) return absl::OkStatus();
    in_flight_[t.to_device] += bits;
    sends_[t.from_device].insert(t.to_device);
    receives_[t.to_device].insert(t.from_device);
    return absl::OkStatus();
  }

  absl::Status CloseWindow() {
    const int64_t bits_max = EffectiveWindowBytes(request_.options.window_bytes) * 8;
    for (const auto& [device, bits] : in_flight_) {
      if (bits <= bits_max) continue;
      return absl::InternalError(
          absl::StrCat("window ", window_, ": ", bits / 8, " bytes in flight on device ", device));
    }
    RETURN_IF_ERROR(CheckMessages(sends_, "sends"));
    RETURN_IF_ERROR(CheckMessages(receives_, "receives"));
    in_flight_.clear();
    sends_.clear();
    receives_.clear();
    for (const Transfer& t : arriving_) {
      const Key key = {t.array, t.to_device};
      (t.to_space == Space::kTarget ? targets_[key] : staging_[{key, t.tape}]).push_back(t.box);
    }
    arriving_.clear();
    return absl::OkStatus();
  }

  absl::Status CheckMessages(const std::map<int32_t, std::set<int32_t>>& peers_of,
                             const char* does) const {
    for (const auto& [device, peers] : peers_of) {
      if (static_cast<int64_t>(peers.size()) <= kMessagesPerWindowMax) continue;
      return absl::InternalError(absl::StrCat("window ", window_, ": device ", device, " ", does,
                                              " ", peers.size(), " messages"));
    }
    return absl::OkStatus();
  }

  // Checks that every target shard is complete and that each of its elements was written once.
  absl::Status CheckTargets() {
    std::map<std::pair<int32_t, int64_t>, std::vector<Box>> missing;  // array, subgroup
    for (const MissingBox& m : plan_.missing()) missing[{m.array, m.subgroup}].push_back(m.box);
    for (size_t a = 0; a < request_.arrays.size(); ++a) {
      const Placement& target = request_.arrays[a].target;
      for (size_t p = 0; p < target.devices->size(); ++p) {
        const int32_t device = static_cast<int32_t>((*target.devices)[p]);
        const absl::Span<const Box> needed = BoxesOf(*target.layout, static_cast<int32_t>(p));
        const std::vector<Box>& got = targets_[{static_cast<int32_t>(a), device}];
        int64_t lost = 0;
        const int32_t tile = target.layout->tile_of[p];
        for (const Box& box : needed) {
          lost += VolumeIn(missing[{static_cast<int32_t>(a), target.layout->tiles[tile].subgroup}],
                           box, budget_);
        }
        if (VolumeOf(got) + lost != VolumeOf(needed) || FindOverlap(got, budget_)) {
          return absl::InternalError(absl::StrCat(
              "array ", a, " device ", device, ": ", VolumeOf(got), " elements written of ",
              VolumeOf(needed), FindOverlap(got, budget_) ? " overlapping" : ""));
        }
      }
    }
    return absl::OkStatus();
  }

  // Checks that no device exceeds its peak and no peak the limit. Ignores staged bytes and bytes on
  // their way. With donation it counts only target shards, because the source bytes that a device
  // still holds depend on all their needers.
  absl::Status CheckMemory() {
    std::map<int64_t, int64_t> bits;  // device ->
    const auto add = [&](const Placement& placement, int32_t width) {
      const Layout& layout = *placement.layout;
      for (size_t t = 0; t < layout.tiles.size(); ++t) {
        for (int32_t p : layout.PositionsOf(t)) {
          bits[(*placement.devices)[p]] += VolumeOf(layout.tiles[t].boxes) * width;
        }
      }
    };
    for (const ArraySpec& array : request_.arrays) {
      add(array.target, BitWidth(array.element_type));
      if (!request_.options.donate) add(array.source, BitWidth(array.element_type));
    }
    for (const auto& [device, held] : bits) {
      if (network_.lost[device] || held <= plan_.peak_bytes()[device] * 8) continue;
      return absl::InternalError(absl::StrCat("device ", device, " holds ", held,
                                              " bits, its peak is ", plan_.peak_bytes()[device],
                                              " bytes"));
    }
    const int64_t peak = plan_.summary().max_peak_bytes;
    const int64_t limit = request_.options.memory_limit_bytes;
    if (limit == 0 || peak <= limit) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("peak of ", peak, " bytes above the limit of ", limit));
  }

  // The tile of a device, from an index of each placement's list.
  const Tile* TileAt(const Placement& placement, int32_t device) {
    const auto [entry, inserted] = positions_.try_emplace(placement.devices.get());
    if (inserted) {
      for (size_t i = 0; i < placement.devices->size(); ++i) {
        entry->second[(*placement.devices)[i]] = static_cast<int32_t>(i);
      }
    }
    const auto at = entry->second.find(device);
    if (at == entry->second.end()) return nullptr;
    const int32_t tile = placement.layout->tile_of[at->second];
    return tile < 0 ? nullptr : &placement.layout->tiles[tile];
  }

  static absl::Status Bad(const Transfer& t, const char* what) {
    return absl::InternalError(absl::StrCat(Shown(t), " ", what));
  }

  const ReshardRequest request_;
  const Plan& plan_;
  Budget& budget_;
  const Network network_;
  std::map<const DeviceList*, std::map<int64_t, int32_t>> positions_;
  int32_t window_ = 0;
  std::vector<Transfer> arriving_;
  std::map<Key, std::vector<Box>> targets_;
  std::map<std::pair<Key, int32_t>, std::vector<Box>> staging_;  // the int32_t is the tape
  std::map<int32_t, int64_t> in_flight_;                         // device -> bits
  std::map<int32_t, std::set<int32_t>> sends_;                   // device -> receivers
  std::map<int32_t, std::set<int32_t>> receives_;                // device -> senders
};

}  // namespace

absl::Status ValidatePlan(const Plan& plan, const CanonicalRequest& request, Budget& budget) {
  return Replay(WithTargetOrder(request.request, plan.target_order()), plan, budget).Run();
}

}  // namespace remesh::planner
