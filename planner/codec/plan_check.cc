// SPDX-License-Identifier: Apache-2.0
#include "planner/codec/plan_check.h"

#include <algorithm>
#include <functional>

#include "base/status_macros.h"
#include "planner/codec/request_bytes.h"
#include "planner/schedule/timeline.h"
#include "planner/values/element_type.h"

namespace remesh {
namespace {

constexpr __int128 kBitsMax = __int128{1} << 62;

template <typename T>
bool IsIndex(int64_t index, const T& items) {
  return index >= 0 && index < static_cast<int64_t>(items.size());
}

// Whether numbers rise (not strictly) from 0 to `end`.
bool Divide(const std::vector<int32_t>& begins, size_t end) {
  return !begins.empty() && begins.front() == 0 && begins.back() == static_cast<int64_t>(end) &&
         std::is_sorted(begins.begin(), begins.end());
}

bool FitsInto(const Box& box, const Shape& shape) {
  if (box.dims.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (box.dims[d].lo < 0 || box.dims[d].hi > shape[d] || box.dims[d].lo >= box.dims[d].hi) {
      return false;
    }
  }
  return true;
}

class Checker {
 public:
  Checker(const PlanRep& rep, const ReshardRequest& request) : rep_(rep), request_(request) {}

  absl::Status Check() {
    RETURN_IF_ERROR(CheckDevices());
    RETURN_IF_ERROR(CheckOrder());
    RETURN_IF_ERROR(CheckClasses());
    RETURN_IF_ERROR(CheckSubs());
    RETURN_IF_ERROR(CheckSegments());
    RETURN_IF_ERROR(CheckSchedule());
    RETURN_IF_ERROR(CheckMoves());
    return CheckBounds();
  }

 private:
  absl::Status CheckDevices() const {
    size_t next = 0;
    for (size_t h = 0; h < request_.topology.hosts.size(); ++h) {
      for (size_t i = 0; i < request_.topology.hosts[h].device_ids.size(); ++i, ++next) {
        if (!IsIndex(next, rep_.host_of) || rep_.host_of[next] != static_cast<int64_t>(h)) {
          return CorruptPlan("devices are on other hosts");
        }
      }
    }
    if (next != rep_.host_of.size() || next != rep_.peak_bytes.size()) {
      return CorruptPlan("there are other devices");
    }
    return absl::OkStatus();
  }

  // Whether the target devices change places among themselves.
  absl::Status CheckOrder() const {
    const std::vector<int64_t>& order = rep_.target_order;
    if (order.empty()) return absl::OkStatus();
    if (!request_.options.free_target_order || order.size() != rep_.host_of.size()) {
      return CorruptPlan("its order is of other devices");
    }
    std::vector<bool> target(order.size(), false), taken(order.size(), false);
    for (const ArraySpec& array : request_.arrays) {
      for (const int64_t device : *array.target.devices) target[device] = true;
    }
    for (size_t d = 0; d < order.size(); ++d) {
      const int64_t taker = order[d];
      if (!IsIndex(taker, taken) || taken[taker] || target[taker] != target[d] ||
          (!target[d] && taker != static_cast<int64_t>(d))) {
        return CorruptPlan("its order is none of the target devices");
      }
      taken[taker] = true;
    }
    return absl::OkStatus();
  }

  absl::Status CheckClasses() {
    if (rep_.schedule.slack_bits < 0 || rep_.schedule.slack_bits > kBitsMax / 4) {
      return CorruptPlan("cuts have no such slack");
    }
    __int128 bits = 0;
    for (const ArrayClass& one : rep_.tapes.classes) {
      if (one.first_cell != cell_count_ || one.cell_count < 0 || one.arrays.empty() ||
          __builtin_add_overflow(cell_count_, one.cell_count, &cell_count_)) {
        return CorruptPlan("cells are not numbered by classes");
      }
      for (int32_t array : one.arrays) {
        if (!IsIndex(array, request_.arrays)) return CorruptPlan("there is no such array");
      }
      const ArraySpec& first = request_.arrays[one.arrays.front()];
      for (int32_t array : one.arrays) {
        if (request_.arrays[array].shape != first.shape ||
            BitWidth(request_.arrays[array].element_type) != one.element_bits) {
          return CorruptPlan("arrays of a class differ");
        }
      }
      __int128 elements = 0;
      if (!CountElements(one, first.shape, elements)) return CorruptPlan("cells do not fit");
      bits += elements * one.element_bits * static_cast<__int128>(one.arrays.size());
      if (bits >= kBitsMax) return CorruptPlan("cells hold too much");
    }
    return absl::OkStatus();
  }

  // Whether the cells are as many as said, each within the array and not empty.
  static bool CountElements(const ArrayClass& one, const Shape& shape, __int128& elements) {
    if (one.cell_count == 0) return one.boxes.empty();  // of an array without elements
    if (!one.boxes.empty()) {
      for (const Box& box : one.boxes) {
        if (!FitsInto(box, shape)) return false;
        elements += box.element_count();
      }
      return static_cast<int64_t>(one.boxes.size()) == one.cell_count;
    }
    if (one.cuts.size() != shape.size()) return false;
    int64_t cells = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      const std::vector<int64_t>& cuts = one.cuts[d];
      if (cuts.size() < 2 || cuts.front() != 0 || cuts.back() != shape[d] ||
          std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) != cuts.end() ||
          __builtin_mul_overflow(cells, static_cast<int64_t>(cuts.size()) - 1, &cells)) {
        return false;
      }
    }
    elements = ElementCount(shape);
    return cells == one.cell_count;
  }

  absl::Status CheckSubs() const {
    if (!Divide(rep_.sub_begin, rep_.cells.size())) return CorruptPlan("subs do not adjoin");
    for (size_t s = 0; s + 1 < rep_.sub_begin.size(); ++s) {
      int64_t last = -1;
      for (int32_t c = rep_.sub_begin[s]; c < rep_.sub_begin[s + 1]; ++c) {
        if (rep_.cells[c] <= last || rep_.cells[c] >= cell_count_) {
          return CorruptPlan("cells of a sub do not rise");
        }
        last = rep_.cells[c];
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSegments() const {
    if (rep_.segment_sub.size() != rep_.segment_hi.size()) {
      return CorruptPlan("segments have no ends");
    }
    int64_t bits = 0;  // of the sub's tape
    for (size_t i = 0; i < rep_.segment_sub.size(); ++i) {
      const int32_t sub = rep_.segment_sub[i];
      if (sub < 0 || sub + 1 >= static_cast<int64_t>(rep_.sub_begin.size())) {
        return CorruptPlan("there is no such sub");
      }
      if (i > 0 && sub < rep_.segment_sub[i - 1]) return CorruptPlan("segments are not in order");
      if (i == 0 || sub != rep_.segment_sub[i - 1]) bits = rep_.TapeOfSub(sub).bits;
      const Segment segment = rep_.SegmentAt(static_cast<int32_t>(i));
      if (segment.lo >= segment.hi || segment.hi > bits) {
        return CorruptPlan("a segment is off its tape");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSchedule() const {
    const Schedule& s = rep_.schedule;
    if (s.slices < 1 || s.rounds < 1 || s.stages < 1 || s.part_bits_min < 1 ||
        s.part_bits_min > kBitsMax) {
      return CorruptPlan("the schedule has no windows");
    }
    const __int128 windows = (__int128{s.slices} + s.stages - 1) * s.rounds;
    const bool counted = rep_.moves.empty() ? rep_.figures.summary.windows == 0
                                            : rep_.figures.summary.windows == windows;
    if (windows > kWindowsMax || !counted) return CorruptPlan("windows are miscounted");
    if (rep_.round_begin.size() != static_cast<size_t>(s.rounds) + 1 ||
        !Divide(rep_.round_begin, rep_.moves.size())) {
      return CorruptPlan("rounds do not adjoin");
    }
    return absl::OkStatus();
  }

  absl::Status CheckMoves() const {
    auto stripe = rep_.stripes.begin();
    for (size_t i = 0; i < rep_.moves.size(); ++i) {
      const PackedMove& move = rep_.moves[i];
      const bool known = IsIndex(move.segment, rep_.segment_sub) &&
                         IsIndex(move.from_device, rep_.host_of) &&
                         IsIndex(move.to_device, rep_.host_of) && move.stage >= 0 &&
                         move.stage < rep_.schedule.stages && move.spaces >= 0 &&
                         move.spaces / 4 <= 2 && move.spaces % 4 <= 2;
      if (!known) return CorruptPlan("a move names what is not there");
      if (move.whole) continue;
      const bool fits = stripe != rep_.stripes.end() && stripe->move == static_cast<int64_t>(i) &&
                        0 <= stripe->lo && stripe->lo <= stripe->hi &&
                        stripe->hi <= rep_.SegmentAt(move.segment).size();
      if (!fits) return CorruptPlan("a stripe is off its segment");
      ++stripe;
    }
    return stripe == rep_.stripes.end() ? absl::OkStatus() : CorruptPlan("stripes are left over");
  }

  absl::Status CheckBounds() const {
    for (const Certificate* one : {&rep_.figures.lower_bound, &rep_.figures.routing_bound}) {
      const auto in = [](const std::vector<int32_t>& members, const auto& items) {
        return std::all_of(members.begin(), members.end(),
                           [&](int32_t i) { return IsIndex(i, items); });
      };
      if (one->kind < Certificate::Kind::kNone || one->kind > Certificate::Kind::kRelay ||
          !in(one->hosts, request_.topology.hosts) ||
          !in(one->domains, request_.topology.domains) || one->capacity < 1) {
        return CorruptPlan("a certificate names what is not there");
      }
    }
    for (const MissingBox& missing : rep_.missing) {
      const bool known = IsIndex(missing.array, request_.arrays) &&
                         FitsInto(missing.box, request_.arrays[missing.array].shape) &&
                         std::all_of(missing.lost_devices.begin(), missing.lost_devices.end(),
                                     [&](int32_t device) { return IsIndex(device, rep_.host_of); });
      if (!known) return CorruptPlan("a missing box is nowhere");
    }
    return absl::OkStatus();
  }

  const PlanRep& rep_;
  const ReshardRequest& request_;
  int32_t cell_count_ = 0;
};

}  // namespace

absl::Status CheckRep(const PlanRep& rep, const ReshardRequest& canonical) {
  return Checker(rep, canonical).Check();
}

}  // namespace remesh
