// SPDX-License-Identifier: Apache-2.0
#include "planner/canonical/canonical.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/canonical/canonical_tree.h"
#include "planner/canonical/device_table.h"
#include "planner/canonical/fingerprint.h"
#include "planner/canonical/request_hasher.h"

namespace remesh::planner {
namespace {

// Whether the tile has no boxes or no positions.
bool IsIdle(const Layout& layout, size_t tile) {
  return layout.tiles[tile].boxes.empty() || layout.PositionsOf(tile).empty();
}

bool HasIdleTile(const Layout& layout) {
  for (size_t t = 0; t < layout.tiles.size(); ++t) {
    if (IsIdle(layout, t)) return true;
  }
  return false;
}

// The layout without idle tiles.
Layout WithoutIdleTiles(const Layout& layout) {
  std::vector<Tile> kept;
  std::vector<int32_t> new_number(layout.tiles.size(), -1);
  for (size_t t = 0; t < layout.tiles.size(); ++t) {
    if (IsIdle(layout, t)) continue;
    new_number[t] = static_cast<int32_t>(kept.size());
    kept.push_back(layout.tiles[t]);
  }
  Layout result = layout;
  result.tiles = TileList(std::move(kept));
  for (int32_t& tile : result.tile_of) tile = tile < 0 ? -1 : new_number[tile];
  IndexPositions(result);
  return result;
}

// Positions of layouts renumbered so that position i is devices[i] of the sorted list `devices`.
Layout Renumbered(const Layout& layout, const std::vector<int32_t>& new_position) {
  Layout result = HasIdleTile(layout) ? WithoutIdleTiles(layout) : layout;
  const std::vector<int32_t> tile_of = std::move(result.tile_of);
  result.tile_of.resize(tile_of.size());
  for (size_t position = 0; position < tile_of.size(); ++position) {
    result.tile_of[new_position[position]] = tile_of[position];
  }
  IndexPositions(result);
  return result;
}

bool IsIdentity(const std::vector<int32_t>& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

class Canonicalizer {
 public:
  Canonicalizer(const ReshardRequest& request, Budget& budget)
      : request_(request),
        budget_(budget),
        table_(request.topology),
        labels_(table_.size()),
        named_(table_.size(), false),
        lost_(table_.size(), false) {
    for (int64_t id : request.options.lost_device_ids) lost_[table_.NumberOf(id)] = true;
  }

  absl::StatusOr<CanonicalizedRequest> Run() {
    GatherQuestions();
    RETURN_IF_ERROR(budget_.Check());
    OrderArrays();
    LabelDevices();
    RETURN_IF_ERROR(budget_.Check());
    RenameTopology();
    RenameArrays();
    RETURN_IF_ERROR(budget_.Check());
    RenameOptions();
    result_.canonical.fingerprint =
        absl::StrCat(RequestFormat(result_.canonical.request.options), "-", Fingerprint().Hex());
    return std::move(result_);
  }

 private:
  // Arrays that are equal except for their names; looked at once.
  struct Question {
    const ArraySpec* array = nullptr;  // the first of them
    Hash128 label;                     // its hash apart from devices
    Placement source;                  // in canonical ids
    Placement target;
  };

  struct LayoutFacts {
    Hash128 hash;
    bool has_idle_tile = false;  // a tile without boxes or positions
  };

  const LayoutFacts& FactsOf(const Layout& layout) {
    const auto [entry, inserted] = layout_facts_.try_emplace(&layout);
    if (inserted) {
      entry->second = {HashWithoutDevices(layout), HasIdleTile(layout)};
    }
    return entry->second;
  }

  void GatherQuestions() {
    absl::flat_hash_map<std::tuple<ElementType, PlacementKey, PlacementKey>, int32_t> number_of;
    question_of_.reserve(request_.arrays.size());
    for (const ArraySpec& array : request_.arrays) {
      if (budget_.Spent()) return;
      const auto [entry, inserted] =
          number_of.try_emplace({array.element_type, KeyOf(array.source), KeyOf(array.target)},
                                static_cast<int32_t>(questions_.size()));
      if (inserted) questions_.push_back({.array = &array, .label = LabelOf(array)});
      question_of_.push_back(entry->second);
    }
  }

  Hash128 LabelOf(const ArraySpec& array) {
    Hash128 label = Mixed({}, static_cast<uint64_t>(array.element_type));
    for (const Placement* p : {&array.source, &array.target}) {
      const Hash128& layout = FactsOf(*p->layout).hash;
      label = Mixed(Mixed(label, layout.high), layout.low);
      label = Mixed(label, static_cast<uint64_t>(p->memory_kind));
    }
    return label;
  }

  // Arrays by their labels, ties in request order.
  void OrderArrays() {
    std::vector<Hash128> labels;
    for (const Question& question : questions_) labels.push_back(question.label);
    std::sort(labels.begin(), labels.end());
    std::vector<int32_t> rank_of;  // of questions
    for (const Question& question : questions_) {
      const auto at = std::lower_bound(labels.begin(), labels.end(), question.label);
      rank_of.push_back(static_cast<int32_t>(at - labels.begin()));
    }
    std::vector<int32_t> next(labels.size() + 1, 0);
    for (int32_t question : question_of_) ++next[rank_of[question] + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    std::vector<int32_t>& order = result_.binding.array_indices;
    order.resize(question_of_.size());
    for (size_t i = 0; i < question_of_.size(); ++i) {
      order[next[rank_of[question_of_[i]]]++] = static_cast<int32_t>(i);
    }
    result_.binding.array_names.reserve(order.size());
    for (int32_t index : order) {
      result_.binding.array_names.push_back(request_.arrays[index].name);
    }
  }

  bool IsFree(bool is_target) const { return is_target && request_.options.free_target_order; }

  // The tile that each position holds, as a label. When the order is free, any device may hold any
  // tile, so the label is the position instead: it tells which places of other lists go with it.
  std::vector<uint64_t> RolesOf(const Layout& layout, bool is_target) {
    std::vector<uint64_t> roles(layout.device_count, 1);
    if (IsFree(is_target)) {
      std::iota(roles.begin(), roles.end(), uint64_t{2});
      return roles;
    }
    const bool may_be_idle = FactsOf(layout).has_idle_tile;
    for (size_t i = 0; i < roles.size(); ++i) {
      const int32_t tile = layout.tile_of[i];
      if (tile < 0 || (may_be_idle && layout.tiles[tile].boxes.empty())) continue;
      roles[i] = static_cast<uint64_t>(tile) + 2;
    }
    return roles;
  }

  // A hash that is equal when two placements put the same tiles on the same devices, however
  // listed.
  Hash128 PlacementHash(const Placement& placement, bool is_target) {
    const auto [entry, inserted] =
        placement_hashes_.try_emplace(std::make_pair(KeyOf(placement), is_target));
    if (!inserted) return entry->second;
    Hash128 sum = FactsOf(*placement.layout).hash;
    const std::vector<uint64_t> roles = RolesOf(*placement.layout, is_target);
    for (size_t i = 0; i < placement.devices->size(); ++i) {
      const uint64_t id = static_cast<uint64_t>((*placement.devices)[i]);
      const Hash128 one = Mixed(Mixed({}, id), roles[i]);
      sum.high += one.high;
      sum.low += one.low;
    }
    return entry->second = Mixed(sum, static_cast<uint64_t>(placement.memory_kind));
  }

  // Labels every device by the tiles that it holds before and after, for each class of equal arrays
  // in canonical order.
  void LabelDevices() {
    absl::flat_hash_set<std::pair<Hash128, Hash128>> seen;
    std::vector<bool> looked_at(questions_.size(), false);
    uint64_t class_count = 0;
    for (int32_t index : result_.binding.array_indices) {
      if (budget_.Spent()) return;
      if (looked_at[question_of_[index]]) continue;
      looked_at[question_of_[index]] = true;
      const Question& question = questions_[question_of_[index]];
      const ArraySpec& array = *question.array;
      const Hash128 source = Mixed(PlacementHash(array.source, false), question.label.low);
      if (!seen.insert({source, PlacementHash(array.target, true)}).second) continue;
      ++class_count;
      LabelHolders(array.source, false, class_count);
      LabelHolders(array.target, true, class_count);
    }
  }

  void LabelHolders(const Placement& placement, bool is_target, uint64_t class_number) {
    const std::vector<int32_t>& devices = table_.NumbersOf(*placement.devices);
    const std::vector<uint64_t> roles = RolesOf(*placement.layout, is_target);
    for (size_t i = 0; i < devices.size(); ++i) {
      Hash128& label = LabelOfDevice(devices[i]);
      label = Mixed(Mixed(label, class_number * 2 + is_target), roles[i]);
    }
  }

  Hash128& LabelOfDevice(int32_t device) {
    if (!named_[device]) labels_[device] = {1, lost_[device]};
    named_[device] = true;
    return labels_[device];
  }

  void RenameTopology() {
    CanonicalTree tree = CanonicalizeTree(
        request_.topology, [&](int64_t id) { return named_[table_.NumberOf(id)]; },
        [&](int64_t id) { return labels_[table_.NumberOf(id)]; });
    canonical_of_.assign(table_.size(), -1);
    for (size_t i = 0; i < tree.device_ids.size(); ++i) {
      number_of_canonical_.push_back(table_.NumberOf(tree.device_ids[i]));
      canonical_of_[number_of_canonical_.back()] = static_cast<int64_t>(i);
    }
    result_.canonical.request.topology = std::move(tree.topology);
    result_.binding.device_ids = std::move(tree.device_ids);
    result_.binding.host_names = std::move(tree.host_names);
    result_.binding.host_indices = std::move(tree.host_indices);
    result_.binding.domain_names = std::move(tree.domain_names);
  }

  struct RenamedList {
    DeviceListPtr devices;
    std::vector<int32_t> new_position;  // by old position
    bool keeps_order = true;
  };

  // A list in canonical ids: rising when `sort` is set, else in the caller's order.
  const RenamedList& RenameDevices(const DeviceList& devices, bool sort) {
    RenamedList& renamed = renamed_lists_[{&devices, sort}];
    if (renamed.devices != nullptr) return renamed;
    std::vector<std::pair<int64_t, int32_t>> order;
    for (int32_t number : table_.NumbersOf(devices)) {
      order.emplace_back(canonical_of_[number], static_cast<int32_t>(order.size()));
    }
    if (sort) std::sort(order.begin(), order.end());
    DeviceList sorted;
    renamed.new_position.resize(devices.size());
    for (const auto& [id, position] : order) {
      renamed.new_position[position] = static_cast<int32_t>(sorted.size());
      sorted.push_back(id);
    }
    renamed.keeps_order = IsIdentity(renamed.new_position);
    DeviceListPtr& shared = lists_[sorted];
    if (shared == nullptr) shared = std::make_shared<const DeviceList>(std::move(sorted));
    renamed.devices = shared;
    return renamed;
  }

  // The placement in canonical ids. Equal placements share their layout and their list.
  Placement Rename(const Placement& placement, bool is_target) {
    const std::pair<PlacementKey, bool> key = {KeyOf(placement), is_target};
    const auto known = renamed_.find(key);
    if (known != renamed_.end()) return known->second;
    const Hash128 hash = PlacementHash(placement, is_target);
    const RenamedList& list = RenameDevices(*placement.devices, !IsFree(is_target));
    Placement renamed = placement;
    renamed.devices = list.devices;
    const LayoutFacts facts = FactsOf(*placement.layout);
    if (facts.has_idle_tile || !list.keeps_order) {
      renamed.layout =
          std::make_shared<const Layout>(Renumbered(*placement.layout, list.new_position));
    }
    const auto [same, inserted] = by_hash_.try_emplace({hash, is_target}, renamed);
    if (!inserted && *same->second.layout == *renamed.layout &&
        *same->second.devices == *renamed.devices) {
      renamed = same->second;
    }
    // The facts do not depend on positions.
    if (!facts.has_idle_tile) layout_facts_.try_emplace(renamed.layout.get(), facts);
    return renamed_[key] = renamed;
  }

  void RenameArrays() {
    std::vector<ArraySpec>& arrays = result_.canonical.request.arrays;
    arrays.reserve(request_.arrays.size());
    for (int32_t index : result_.binding.array_indices) {
      if (budget_.Spent()) return;
      Question& question = questions_[question_of_[index]];
      if (question.source.layout == nullptr) {
        question.source = Rename(question.array->source, false);
        question.target = Rename(question.array->target, true);
      }
      arrays.push_back({.name = "",
                        .shape = question.array->shape,
                        .element_type = question.array->element_type,
                        .source = question.source,
                        .target = question.target});
    }
  }

  void RenameOptions() {
    ReshardRequest& request = result_.canonical.request;
    request.options = request_.options;
    request.fallbacks = request_.fallbacks;
    std::vector<int64_t>& lost = request.options.lost_device_ids;
    std::erase_if(lost, [&](int64_t id) { return !named_[table_.NumberOf(id)]; });
    for (int64_t& id : lost) id = canonical_of_[table_.NumberOf(id)];
    std::sort(lost.begin(), lost.end());
  }

  Hash128 Fingerprint() {
    const ReshardRequest& request = result_.canonical.request;
    std::vector<bool> named;
    for (int32_t number : number_of_canonical_) named.push_back(named_[number]);
    RequestHasher hasher(request, named);
    std::vector<RequestHasher::Numbers> numbers(questions_.size());
    for (size_t i = 0; i < request.arrays.size(); ++i) {
      hasher.AddArray(
          request.arrays[i], [&](const Layout& layout) { return FactsOf(layout).hash; },
          numbers[question_of_[result_.binding.array_indices[i]]]);
    }
    return hasher.Digest();
  }

  const ReshardRequest& request_;
  Budget& budget_;
  std::vector<Question> questions_;
  std::vector<int32_t> question_of_;  // by the caller's index of the array
  absl::flat_hash_map<const Layout*, LayoutFacts> layout_facts_;
  absl::flat_hash_map<std::pair<PlacementKey, bool>, Hash128> placement_hashes_;
  DeviceTable table_;
  std::vector<Hash128> labels_;  // by the table's numbers, of every named device
  std::vector<bool> named_;      // whether a list names the device
  std::vector<bool> lost_;
  std::vector<int64_t> canonical_of_;         // by the table's numbers
  std::vector<int32_t> number_of_canonical_;  // the inverse
  std::map<DeviceList, DeviceListPtr> lists_;
  std::map<std::pair<const DeviceList*, bool>, RenamedList> renamed_lists_;
  absl::flat_hash_map<std::pair<PlacementKey, bool>, Placement> renamed_;
  absl::flat_hash_map<std::pair<Hash128, bool>, Placement> by_hash_;
  CanonicalizedRequest result_;
};

}  // namespace

absl::StatusOr<CanonicalizedRequest> Canonicalize(const ReshardRequest& request, Budget& budget) {
  RETURN_IF_ERROR(ValidateRequest(request, budget));
  return Canonicalizer(request, budget).Run();
}

}  // namespace remesh::planner
