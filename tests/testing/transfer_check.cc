// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/transfer_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/testing/for_each_index.h"

namespace remesh::testing {

using planner::MissingBox;
using planner::ReshardRequest;
using planner::Space;
using planner::Transfer;

namespace {

// Elements of one array in one space of one device: the value (subgroup) of each index, absent
// where nothing is.
using Store = std::map<int64_t, int64_t>;
using Place = std::pair<int32_t, int64_t>;  // array, device

std::string Text(const Transfer& t) {
  return absl::StrCat("window ", t.window, " array ", t.array, " box ", t.box.DebugString(),
                      " from ", t.from_device, " to ", t.to_device, ": ");
}

class Simulation {
 public:
  Simulation(const ReshardRequest& request, const TransferCheckOptions& options)
      : request_(request), options_(options) {
    for (size_t h = 0; h < request.topology.hosts.size(); ++h) {
      const planner::Host& host = request.topology.hosts[h];
      const int64_t n = static_cast<int64_t>(host.device_ids.size());
      report_.nic_out_bits.emplace_back(host.nics, 0);
      report_.nic_in_bits.emplace_back(host.nics, 0);
      for (int64_t i = 0; i < n; ++i) {
        home_[host.device_ids[i]] = {static_cast<int32_t>(h),
                                     static_cast<int32_t>(i * host.nics / n)};
      }
    }
    const auto& domains = request.topology.domains;
    for (size_t d = 0; d < domains.size(); ++d) domain_of_[domains[d].name] = d;
    report_.domain_out_bits.assign(domains.size(), 0);
    report_.domain_in_bits.assign(domains.size(), 0);
    const std::vector<int64_t>& lost = request.options.lost_device_ids;
    lost_.insert(lost.begin(), lost.end());
    for (size_t a = 0; a < request.arrays.size(); ++a) LoadSource(static_cast<int32_t>(a));
  }

  absl::Status Play(const std::vector<Transfer>& transfers) {
    size_t i = 0;
    while (i < transfers.size()) {
      size_t end = i;
      while (end < transfers.size() && transfers[end].window == transfers[i].window) ++end;
      if (i > 0 && transfers[i].window < transfers[i - 1].window) {
        return absl::InternalError(Text(transfers[i]) + "windows fall");
      }
      for (size_t t = i; t < end; ++t) RETURN_IF_ERROR(Send(transfers[t]));
      Arrive();
      i = end;
    }
    return absl::OkStatus();
  }

  absl::Status CheckTargets(const std::vector<MissingBox>& missing) {
    std::map<int32_t, std::set<std::pair<int64_t, int64_t>>> absent;  // subgroup, index
    for (const MissingBox& m : missing) {
      ForEachIndex(request_.arrays[m.array].shape, m.box, [&](int64_t index) {
        absent[m.array].insert({m.subgroup, index});
      });
    }
    for (size_t a = 0; a < request_.arrays.size(); ++a) {
      RETURN_IF_ERROR(CheckArray(static_cast<int32_t>(a), absent[static_cast<int32_t>(a)]));
    }
    return absl::OkStatus();
  }

  TrafficReport Report() {
    for (size_t h = 0; h < report_.nic_out_bits.size(); ++h) {
      const double capacity = request_.topology.hosts[h].nic_bytes_per_second * 8;
      for (const auto* side : {&report_.nic_out_bits[h], &report_.nic_in_bits[h]}) {
        const auto busiest = std::max_element(side->begin(), side->end());
        report_.busiest_nic_seconds =
            std::max(report_.busiest_nic_seconds, static_cast<double>(*busiest) / capacity);
      }
    }
    return report_;
  }

 private:
  struct Write {
    Place place;
    Space space;
    int32_t tape;
    int64_t index;
    int64_t value;
  };

  void LoadSource(int32_t a) {
    const planner::ArraySpec& array = request_.arrays[a];
    const planner::Layout& layout = *array.source.layout;
    for (size_t t = 0; t < layout.tiles.size(); ++t) {
      const planner::Tile& tile = layout.tiles[t];
      for (int32_t position : layout.PositionsOf(t)) {
        const int64_t device = (*array.source.devices)[position];
        named_.insert(device);
        if (lost_.contains(device)) continue;
        for (const planner::Box& box : tile.boxes) {
          ForEachIndex(array.shape, box, [&](int64_t index) {
            source_[{a, device}][index] = tile.subgroup;
            in_host_.insert({home_.at(device).first, a, tile.subgroup, index});
          });
        }
      }
    }
    named_.insert(array.source.devices->begin(), array.source.devices->end());
    named_.insert(array.target.devices->begin(), array.target.devices->end());
  }

  absl::Status Send(const Transfer& t) {
    for (int64_t device : {t.from_device, t.to_device}) {
      if (!named_.contains(device)) return absl::InternalError(Text(t) + "device is not named");
      if (lost_.contains(device)) return absl::InternalError(Text(t) + "device is lost");
    }
    const Place place{t.array, t.from_device};
    const Store& store = t.from_space == Space::kSource   ? source_[place]
                         : t.from_space == Space::kTarget ? target_[place]
                                                          : staging_[{place, t.tape}];
    absl::Status status;
    int64_t elements = 0;
    ForEachIndex(request_.arrays[t.array].shape, t.box, [&](int64_t index) {
      if (!status.ok()) return;
      ++elements;
      if (!store.contains(index)) {
        status = absl::InternalError(absl::StrCat(Text(t), "sender lacks element ", index));
        return;
      }
      const int64_t value = store.at(index);
      status = CheckEntry(t, index, value);
      writes_.push_back({{t.array, t.to_device}, t.to_space, t.tape, index, value});
    });
    if (elements == 0) return absl::InternalError(Text(t) + "is empty");
    Count(t, elements * planner::BitWidth(request_.arrays[t.array].element_type));
    return status;
  }

  absl::Status CheckEntry(const Transfer& t, int64_t index, int64_t value) {
    const auto held = source_.find({t.array, t.to_device});
    const bool holds =
        held != source_.end() && held->second.contains(index) && held->second.at(index) == value;
    if (t.from_device != t.to_device && holds) {
      return absl::InternalError(Text(t) + "brings what the receiver holds");
    }
    const int32_t host = home_.at(t.to_device).first;
    if (!options_.enter_once || host == home_.at(t.from_device).first) return absl::OkStatus();
    if (!in_host_.insert({host, t.array, value, index}).second) {
      return absl::InternalError(Text(t) + "enters a host that has it");
    }
    return absl::OkStatus();
  }

  void Count(const Transfer& t, int64_t bits) {
    const auto [from_host, from_nic] = home_.at(t.from_device);
    const auto [to_host, to_nic] = home_.at(t.to_device);
    if (t.from_device == t.to_device) report_.kept_bits += bits;
    if (from_host == to_host) return;
    report_.crossing_bits += bits;
    report_.nic_out_bits[from_host][from_nic] += bits;
    report_.nic_in_bits[to_host][to_nic] += bits;
    const std::set<size_t> left = DomainsAbove(from_host);
    const std::set<size_t> entered = DomainsAbove(to_host);
    for (size_t d : left) report_.domain_out_bits[d] += entered.contains(d) ? 0 : bits;
    for (size_t d : entered) report_.domain_in_bits[d] += left.contains(d) ? 0 : bits;
  }

  std::set<size_t> DomainsAbove(int32_t host) const {
    std::set<size_t> above;
    std::string name = request_.topology.hosts[host].parent;
    while (!name.empty()) {
      above.insert(domain_of_.at(name));
      name = request_.topology.domains[domain_of_.at(name)].parent;
    }
    return above;
  }

  void Arrive() {
    for (const Write& w : writes_) {
      (w.space == Space::kTarget ? target_[w.place] : staging_[{w.place, w.tape}])[w.index] =
          w.value;
      if (w.space == Space::kTarget) ++times_written_[w.place][w.index];
    }
    writes_.clear();
  }

  absl::Status CheckArray(int32_t a, const std::set<std::pair<int64_t, int64_t>>& absent) {
    const planner::ArraySpec& array = request_.arrays[a];
    for (size_t p = 0; p < array.target.devices->size(); ++p) {
      const int64_t device = (*array.target.devices)[p];
      const int32_t tile_index = array.target.layout->tile_of[p];
      Store& written = target_[{a, device}];
      const Store& times = times_written_[{a, device}];
      size_t needed = 0;
      std::string offence;
      if (tile_index >= 0) {
        const planner::Tile& tile = array.target.layout->tiles[tile_index];
        for (const planner::Box& box : tile.boxes) {
          ForEachIndex(array.shape, box, [&](int64_t index) {
            const auto found = written.find(index);
            needed += found != written.end();
            if (found == written.end() && absent.contains({tile.subgroup, index})) return;
            if (found == written.end()) {
              offence = absl::StrCat("element ", index, " never written");
            } else if (found->second != tile.subgroup) {
              offence = absl::StrCat("element ", index, " of another subgroup");
            } else if (times.at(index) != 1) {
              offence = absl::StrCat("element ", index, " written ", times.at(index), " times");
            }
          });
        }
      }
      if (offence.empty() && needed != written.size())
        offence = "elements outside the shard written";
      if (!offence.empty()) {
        return absl::InternalError(absl::StrCat("array ", a, " device ", device, ": ", offence));
      }
    }
    return absl::OkStatus();
  }

  const ReshardRequest& request_;
  const TransferCheckOptions options_;
  std::map<int64_t, std::pair<int32_t, int32_t>> home_;  // device -> host, NIC of the host
  std::map<std::string, size_t> domain_of_;              // by name
  std::set<int64_t> named_;
  std::set<int64_t> lost_;
  std::map<Place, Store> source_;
  std::map<Place, Store> target_;
  std::map<std::pair<Place, int32_t>, Store> staging_;  // and tape
  std::map<Place, Store> times_written_;
  std::set<std::tuple<int32_t, int32_t, int64_t, int64_t>>
      in_host_;  // host, array, subgroup, index
  std::vector<Write> writes_;
  TrafficReport report_;
};

}  // namespace

absl::Status CheckTransfers(const ReshardRequest& request, const std::vector<Transfer>& transfers,
                            const std::vector<MissingBox>& missing,
                            const TransferCheckOptions& options, TrafficReport* report) {
  Simulation simulation(request, options);
  RETURN_IF_ERROR(simulation.Play(transfers));
  RETURN_IF_ERROR(simulation.CheckTargets(missing));
  if (report != nullptr) *report = simulation.Report();
  return absl::OkStatus();
}

}  // namespace remesh::testing
