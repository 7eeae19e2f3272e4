// SPDX-License-Identifier: Apache-2.0
#include "planner/atoms/atoms.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "planner/atoms/cut_atoms.h"
#include "planner/atoms/index_of_pair.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

using PlacementsKey = std::tuple<const Layout*, const DeviceList*, MemoryKind, const Layout*,
                                 const DeviceList*, MemoryKind>;
using ClassKey = std::pair<int, PlacementsKey>;

PlacementsKey PlacementsOf(const ArraySpec& array) {
  const Placement& s = array.source;
  const Placement& t = array.target;
  return {s.layout.get(), s.devices.get(), s.memory_kind,
          t.layout.get(), t.devices.get(), t.memory_kind};
}

class AtomMaker {
 public:
  AtomMaker(const ReshardRequest& request, const Network& network, Budget& budget)
      : request_(request),
        network_(network),
        budget_(budget),
        group_of_device_(network.device_count(), -1) {
    Intern({});  // group 0: no devices
  }

  absl::StatusOr<Atoms> Run() {
    MergeArrays();
    InternTiles();
    Reserve(placed_, expected_);
    Reserve(atoms_.tapes, expected_);
    for (ArrayClass& array_class : atoms_.geometry.classes) RETURN_IF_ERROR(CutClass(array_class));
    for (std::optional<IndexOfPair>& one : tape_of_) one.reset();
    cut_before_.clear();
    LayTapes();
    return std::move(atoms_);
  }

 private:
  struct AtomOfTape {
    int32_t tape;
    int32_t atom;
  };

  void MergeArrays() {
    absl::flat_hash_map<ClassKey, size_t> class_of;
    std::vector<ArrayClass>& classes = atoms_.geometry.classes;
    for (size_t i = 0; i < request_.arrays.size(); ++i) {
      const auto [entry, inserted] = class_of.try_emplace(
          ClassKey{BitWidth(request_.arrays[i].element_type), PlacementsOf(request_.arrays[i])},
          classes.size());
      if (inserted) {
        ++classes_left_[PlacementsOf(request_.arrays[i])];
        classes.push_back({.element_bits = BitWidth(request_.arrays[i].element_type)});
      }
      classes[entry->second].arrays.push_back(static_cast<int32_t>(i));
    }
    // Puts wide elements first on every tape, so that cuts at multiples of the widest element fall
    // between elements of the others too.
    std::stable_sort(classes.begin(), classes.end(), [](const ArrayClass& a, const ArrayClass& b) {
      return a.element_bits > b.element_bits;
    });
  }

  int32_t Intern(const Group& group) {
    if (group.size() == 1) {
      int32_t& known = group_of_device_[group.front()];
      if (known < 0) {
        known = static_cast<int32_t>(atoms_.groups.size());
        atoms_.groups.push_back(group);
      }
      return known;
    }
    const auto [entry, inserted] =
        group_of_.try_emplace(group, static_cast<int32_t>(atoms_.groups.size()));
    if (inserted) {
      atoms_.groups.push_back(group);
      overlaps_ += static_cast<int64_t>(group.size());
    }
    return entry->second;
  }

  // A layout over a list of devices, lost ones among them or not.
  using TilesKey = std::tuple<const Layout*, const DeviceList*, bool>;

  // Interns the groups of all tiles, which most atoms have, before any of an overlap of boxes.
  void InternTiles() {
    int64_t expected = 0;
    for (const ArrayClass& array_class : atoms_.geometry.classes) {
      const ArraySpec& array = request_.arrays[array_class.arrays.front()];
      GroupsOfTiles(array.source, true);
      GroupsOfTiles(array.target, false);
      expected = std::min(kAtomsMax, expected + AtomsMost(array));
    }
    expected_ = expected;
  }

  // The most atoms that an array is cut into, except where boxes overlap; at most kAtomsMax.
  static int64_t AtomsMost(const ArraySpec& array) {
    const Layout& source = *array.source.layout;
    const Layout& target = *array.target.layout;
    if (!source.partitions.has_value() || !target.partitions.has_value()) {
      return static_cast<int64_t>(source.tiles.size() + target.tiles.size());
    }
    int64_t most = 1;
    for (size_t d = 0; d < source.shape.size() && most < kAtomsMax; ++d) {
      const DimPartition& before = (*source.partitions)[d];
      const DimPartition& after = (*target.partitions)[d];
      most *= std::max<int64_t>(1, std::ssize(before.part_of) + std::ssize(after.part_of) - 1);
    }
    return std::min(most, kAtomsMax);
  }

  // The groups of all tiles of a placement, by tile. Looks once at placements that are alike.
  const std::vector<int32_t>& GroupsOfTiles(const Placement& placement, bool living_only) {
    const TilesKey key{placement.layout.get(), placement.devices.get(), living_only};
    const auto [entry, inserted] = groups_of_tiles_.try_emplace(key);
    std::vector<int32_t>& groups = entry->second;
    if (!inserted) return groups;
    Group group;
    const Layout& layout = *placement.layout;
    groups.reserve(layout.tiles.size());
    for (size_t t = 0; t < layout.tiles.size(); ++t) {
      group.clear();
      for (int32_t position : layout.PositionsOf(t)) {
        const int32_t device = static_cast<int32_t>((*placement.devices)[position]);
        if (!living_only || !network_.lost[device]) group.push_back(device);
      }
      std::sort(group.begin(), group.end());
      groups.push_back(Intern(group));
    }
    return groups;
  }

  template <typename Tiles>
  int32_t Union(const Tiles& tiles, const std::vector<int32_t>& group_of_tile) {
    if (tiles.empty()) return 0;
    if (tiles.size() == 1) return group_of_tile[tiles[0]];
    Group all;
    for (int32_t tile : tiles) {
      const Group& group = atoms_.groups[group_of_tile[tile]];
      all.insert(all.end(), group.begin(), group.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return Intern(all);
  }

  // A class that is cut, and the elements of its atoms in the order of visits.
  struct CutBefore {
    const ArrayClass* array_class = nullptr;
    size_t first_placed = 0;  // of its atoms in placed_
    std::vector<int64_t> elements;
  };

  absl::Status CutClass(ArrayClass& array_class) {
    array_class.first_atom = next_atom_;
    const ArraySpec& array = request_.arrays[array_class.arrays.front()];
    const PlacementsKey placements = PlacementsOf(array);
    const bool again = --classes_left_[placements] > 0;  // for elements of another width
    const auto before = cut_before_.find(placements);
    if (before != cut_before_.end()) return CutAlike(before->second, array_class);
    CutBefore cut{.array_class = &array_class, .first_placed = placed_.size()};
    const size_t missing = atoms_.missing.size();
    RETURN_IF_ERROR(CutFromScratch(array, array_class, again ? &cut.elements : nullptr));
    if (again && atoms_.missing.size() == missing) cut_before_[placements] = std::move(cut);
    return budget_.Check();
  }

  // Cuts a class like another, from which it differs in the width of its elements alone.
  absl::Status CutAlike(const CutBefore& before, ArrayClass& array_class) {
    const ArrayClass& other = *before.array_class;
    array_class.atom_count = other.atom_count;
    array_class.cuts = other.cuts;
    array_class.boxes = other.boxes;
    if (int64_t{next_atom_} + other.atom_count > kAtomsMax) return TooManyAtoms();
    const int64_t bits = array_class.element_bits * std::ssize(array_class.arrays);
    for (size_t i = 0; i < before.elements.size(); ++i) {
      if (budget_.Spent()) break;
      const AtomOfTape placed = placed_[before.first_placed + i];
      Tape& tape = atoms_.tapes[placed.tape];
      tape.unit_bits = std::max(tape.unit_bits, static_cast<int16_t>(array_class.element_bits));
      tape.bits += before.elements[i] * bits;
      placed_.push_back({placed.tape, placed.atom - other.first_atom + next_atom_});
    }
    next_atom_ += array_class.atom_count;
    return budget_.Check();
  }

  // Appends the elements of each atom that is placed to `elements` unless that is null.
  absl::Status CutFromScratch(const ArraySpec& array, ArrayClass& array_class,
                              std::vector<int64_t>* elements) {
    const std::vector<int32_t>& holders_of = GroupsOfTiles(array.source, true);
    const std::vector<int32_t>& needers_of = GroupsOfTiles(array.target, false);
    const bool same_memory = array.source.memory_kind == array.target.memory_kind;
    const int64_t bits = array_class.element_bits * std::ssize(array_class.arrays);
    std::optional<IndexOfPair>& tape_of = tape_of_[same_memory];
    if (!tape_of) tape_of.emplace(atoms_.groups.size(), expected_);
    const auto place = [&](const Atom& atom) -> absl::Status {
      const int32_t holders = Union(atom.source_tiles, holders_of);
      const int32_t needers = Union(atom.target_tiles, needers_of);
      if (overlaps_ > kOverlapsMax) return TooManyOverlaps();
      if (holders == 0) return PlaceMissing(array_class, atom, needers, array);
      int32_t& index = tape_of->At(holders, needers);
      if (index == IndexOfPair::kUnknown) {
        index = static_cast<int32_t>(atoms_.tapes.size());
        atoms_.tapes.push_back(
            {.holders = holders, .needers = needers, .same_memory = same_memory});
      }
      Tape& tape = atoms_.tapes[index];
      tape.unit_bits = std::max(tape.unit_bits, static_cast<int16_t>(array_class.element_bits));
      tape.bits += atom.elements * bits;
      placed_.push_back({index, atom.id});
      if (elements != nullptr) elements->push_back(atom.elements);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(
        CutIntoAtoms(*array.source.layout, *array.target.layout, array_class, place, budget_));
    next_atom_ += array_class.atom_count;
    return absl::OkStatus();
  }

  absl::Status PlaceMissing(const ArrayClass& array_class, const Atom& atom, int32_t needers,
                            const ArraySpec& array) {
    AddMissing(array_class, atom, array);
    AddMissingBits(array_class, atom, needers);
    return std::ssize(atoms_.missing) > kAtomsMax ? TooManyAtoms() : absl::OkStatus();
  }

  void AddMissing(const ArrayClass& array_class, const Atom& atom, const ArraySpec& spec) {
    const Placement& source = spec.source;
    const int64_t subgroup = spec.target.layout->tiles[atom.target_tiles.front()].subgroup;
    std::vector<int32_t> lost;
    for (int32_t tile : atom.source_tiles) {
      for (int32_t position : source.layout->PositionsOf(tile)) {
        lost.push_back(static_cast<int32_t>((*source.devices)[position]));
      }
    }
    std::sort(lost.begin(), lost.end());
    lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
    for (int32_t array : array_class.arrays) {
      atoms_.missing.push_back({array, array_class.AtomBox(atom.id), subgroup, lost});
    }
  }

  void AddMissingBits(const ArrayClass& array_class, const Atom& atom, int32_t needers) {
    atoms_.missing_bits.resize(std::max(atoms_.missing_bits.size(), atoms_.groups.size()));
    atoms_.missing_bits[needers] +=
        atom.elements * array_class.element_bits * static_cast<int64_t>(array_class.arrays.size());
  }

  // Gathers the atoms of each tape. Atoms come in rising order within a subgroup; subgroups are cut
  // one after another.
  void LayTapes() {
    std::vector<int32_t> next(atoms_.tapes.size() + 1, 0);
    for (const AtomOfTape& atom : placed_) ++next[atom.tape + 1];
    for (size_t s = 0; s < atoms_.tapes.size(); ++s) {
      next[s + 1] += next[s];
      atoms_.tapes[s].first_atom = next[s];
    }
    atoms_.numbers.resize(placed_.size());
    for (const AtomOfTape& atom : placed_) atoms_.numbers[next[atom.tape]++] = atom.atom;
  }

  const ReshardRequest& request_;
  const Network& network_;
  Budget& budget_;
  Atoms atoms_;
  std::vector<int32_t> group_of_device_;          // of single devices, -1: none yet
  absl::flat_hash_map<Group, int32_t> group_of_;  // of all other groups
  absl::flat_hash_map<TilesKey, std::vector<int32_t>> groups_of_tiles_;
  // By whether memory stays the same; holders and needers.
  std::array<std::optional<IndexOfPair>, 2> tape_of_;
  absl::flat_hash_map<PlacementsKey, int32_t> classes_left_;  // to be cut
  absl::flat_hash_map<PlacementsKey, CutBefore> cut_before_;
  int64_t expected_ = 0;  // about so many atoms
  std::vector<AtomOfTape> placed_;
  int32_t next_atom_ = 0;
  int64_t overlaps_ = 0;  // devices of all groups in group_of_
};

}  // namespace

absl::StatusOr<Atoms> MakeAtoms(const ReshardRequest& canonical, const Network& network,
                                Budget& budget) {
  return AtomMaker(canonical, network, budget).Run();
}

}  // namespace remesh::planner
