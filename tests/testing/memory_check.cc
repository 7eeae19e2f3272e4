// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/memory_check.h"

#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/testing/for_each_index.h"

namespace remesh::testing {

using planner::ReshardRequest;
using planner::Space;
using planner::Transfer;

namespace {

// One value: array, subgroup, global index.
using Element = std::tuple<int32_t, int64_t, int64_t>;

class Memory {
 public:
  Memory(const ReshardRequest& request, const std::vector<Transfer>& transfers)
      : request_(request) {
    int32_t host = 0;
    for (const planner::Host& one : request.topology.hosts) {
      for (const int64_t device : one.device_ids) host_of_[device] = host;
      ++host;
    }
    for (const Transfer& t : transfers) {
      if (t.from_space != Space::kStaging) continue;
      ForEachIndex(request.arrays[t.array].shape, t.box, [&](int64_t index) {
        int32_t& last = passed_on_[{t.from_device, t.array, t.tape, index}];
        last = std::max(last, t.window);
      });
    }
    const std::vector<int64_t>& lost = request.options.lost_device_ids;
    lost_.insert(lost.begin(), lost.end());
    for (size_t a = 0; a < request.arrays.size(); ++a) {
      const auto array = static_cast<int32_t>(a);
      ForEachElement(array, request.arrays[a].source, [&](int64_t device, const Element& element) {
        if (lost_.contains(device)) return;
        places_[element].push_back(device);
        level_[device] += BitsOf(array);
      });
      ForEachElement(array, request.arrays[a].target,
                     [&](int64_t, const Element& element) { ++needers_[element]; });
      if (request.options.donate) continue;
      ForEachElement(array, request.arrays[a].target,
                     [&](int64_t device, const Element&) { level_[device] += BitsOf(array); });
    }
    peak_ = level_;
  }

  void Arrive(const Transfer& t) {
    const planner::ArraySpec& array = request_.arrays[t.array];
    const bool remote = host_of_.at(t.from_device) != host_of_.at(t.to_device);
    ForEachIndex(array.shape, t.box, [&](int64_t index) {
      const int64_t bits = BitsOf(t.array);
      if (remote) {
        Stay(t.from_device, bits, t.window + 2);
        Stay(t.to_device, bits, t.window + 2);
      }
      if (t.to_space == Space::kStaging) {
        Stay(t.to_device, bits, passed_on_[{t.to_device, t.array, t.tape, index}] + 2);
        return;
      }
      if (request_.options.donate) Add(t.to_device, bits);
      const Element element = {t.array, ValueOf(t), index};
      if (--needers_[element] == 0) complete_.push_back(element);
    });
  }

  // What leaves before `window`, in which something comes.
  void EndBefore(int32_t window) {
    for (const Element& element : complete_) {
      if (!request_.options.donate) break;
      for (int64_t device : places_[element]) level_[device] -= BitsOf(std::get<0>(element));
    }
    complete_.clear();
    for (; !leaving_.empty() && leaving_.begin()->first <= window;
         leaving_.erase(leaving_.begin())) {
      for (const auto& [device, bits] : leaving_.begin()->second) level_[device] -= bits;
    }
  }

  absl::Status Check(const std::vector<int64_t>& peak_bytes) const {
    for (const auto& [device, bits] : peak_) {
      if (bits <= peak_bytes[device] * 8) continue;
      return absl::InternalError(absl::StrCat("device ", device, " holds ", bits,
                                              " bits, its peak is ", peak_bytes[device], " bytes"));
    }
    return absl::OkStatus();
  }

 private:
  int64_t BitsOf(int32_t array) const {
    return planner::BitWidth(request_.arrays[array].element_type);
  }

  // Bits that are there until `window` begins.
  void Stay(int64_t device, int64_t bits, int32_t window) {
    leaving_[window][device] += bits;
    Add(device, bits);
  }

  void Add(int64_t device, int64_t bits) {
    peak_[device] = std::max(peak_[device], level_[device] += bits);
  }

  template <typename Visit>
  void ForEachElement(int32_t array, const planner::Placement& placement,
                      const Visit& visit) const {
    for (size_t t = 0; t < placement.layout->tiles.size(); ++t) {
      const planner::Tile& tile = placement.layout->tiles[t];
      for (const planner::Box& box : tile.boxes) {
        ForEachIndex(request_.arrays[array].shape, box, [&](int64_t index) {
          for (int32_t position : placement.layout->PositionsOf(t)) {
            visit((*placement.devices)[position], Element{array, tile.subgroup, index});
          }
        });
      }
    }
  }

  // The subgroup whose value goes: that of the receiver's target shard, or, where it is staged, of
  // all that the tape goes to, which the first transfer into a target shows.
  int64_t ValueOf(const Transfer& t) {
    const auto known = value_of_tape_.find({t.array, t.tape});
    if (known != value_of_tape_.end()) return known->second;
    const planner::Placement& side = t.from_space == Space::kSource
                                         ? request_.arrays[t.array].source
                                         : request_.arrays[t.array].target;
    const int64_t device = t.from_space == Space::kSource ? t.from_device : t.to_device;
    for (size_t p = 0; p < side.devices->size(); ++p) {
      if ((*side.devices)[p] != device) continue;
      const int64_t value = side.layout->tiles[side.layout->tile_of[p]].subgroup;
      return value_of_tape_[{t.array, t.tape}] = value;
    }
    return 0;
  }

  const ReshardRequest& request_;
  std::set<int64_t> lost_;
  std::map<int64_t, int32_t> host_of_;
  // By which window a device has passed on what it staged: device, array, tape, index.
  std::map<std::tuple<int64_t, int32_t, int32_t, int64_t>, int32_t> passed_on_;
  std::map<int32_t, std::map<int64_t, int64_t>> leaving_;  // window -> device -> bits
  std::map<Element, std::vector<int64_t>> places_;         // devices with it in the source
  std::map<Element, int64_t> needers_;                     // that have not got it
  std::vector<Element> complete_;                          // in this window
  std::map<std::pair<int32_t, int32_t>, int64_t> value_of_tape_;
  std::map<int64_t, int64_t> level_;  // device -> bits
  std::map<int64_t, int64_t> peak_;
};

}  // namespace

absl::Status CheckPeaks(const ReshardRequest& request, const std::vector<Transfer>& transfers,
                        const std::vector<int64_t>& peak_bytes) {
  Memory memory(request, transfers);
  for (size_t i = 0; i < transfers.size(); ++i) {
    if (i > 0 && transfers[i].window != transfers[i - 1].window)
      memory.EndBefore(transfers[i].window);
    memory.Arrive(transfers[i]);
  }
  return memory.Check(peak_bytes);
}

}  // namespace remesh::testing
