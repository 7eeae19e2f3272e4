// SPDX-License-Identifier: Apache-2.0
#include "planner/atoms/atoms.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "planner/atoms/cut_atoms.h"

namespace remesh::planner {
namespace {

using ClassKey = std::tuple<int, const Layout*, const DeviceList*, MemoryKind, const Layout*,
                            const DeviceList*, MemoryKind>;

ClassKey KeyOf(const ArraySpec& array) {
  const Placement& s = array.source;
  const Placement& t = array.target;
  return {BitWidth(array.element_type),
          s.layout.get(),
          s.devices.get(),
          s.memory_kind,
          t.layout.get(),
          t.devices.get(),
          t.memory_kind};
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
    for (ArrayClass& array_class : atoms_.geometry.classes) RETURN_IF_ERROR(CutClass(array_class));
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
      const auto [entry, inserted] =
          class_of.try_emplace(KeyOf(request_.arrays[i]), classes.size());
      if (inserted) {
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

  // The groups of all tiles of a placement, by tile.
  std::vector<int32_t> GroupsOfTiles(const Placement& placement, bool living_only) {
    std::vector<int32_t> groups;
    Group group;
    for (const Tile& tile : placement.layout->tiles) {
      group.clear();
      for (int32_t position : tile.positions) {
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

  absl::Status CutClass(ArrayClass& array_class) {
    array_class.first_atom = next_atom_;
    const ArraySpec& array = request_.arrays[array_class.arrays.front()];
    ASSIGN_OR_RETURN(
        const std::vector<Atom> atoms,
        CutIntoAtoms(*array.source.layout, *array.target.layout, array_class, budget_));
    const std::vector<int32_t> holders_of = GroupsOfTiles(array.source, true);
    const std::vector<int32_t> needers_of = GroupsOfTiles(array.target, false);
    next_atom_ += array_class.atom_count;
    if (next_atom_ > kAtomsMax) return TooManyAtoms();
    tape_of_.reserve(atoms.size());
    const bool same_memory = array.source.memory_kind == array.target.memory_kind;
    for (const Atom& atom : atoms) {
      if (budget_.Spent()) break;
      const int32_t holders = Union(atom.source_tiles, holders_of);
      const int32_t needers = Union(atom.target_tiles, needers_of);
      if (overlaps_ > kOverlapsMax) return TooManyOverlaps();
      if (holders == 0) {
        AddMissing(array_class, atom, array);
        AddMissingBits(array_class, atom, needers);
        if (static_cast<int64_t>(atoms_.missing.size()) > kAtomsMax) return TooManyAtoms();
        continue;
      }
      const int32_t index = TapeOf(holders, needers, same_memory);
      Tape& tape = atoms_.tapes[index];
      tape.unit_bits = std::max(tape.unit_bits, array_class.element_bits);
      tape.bits += atom.elements * array_class.element_bits *
                   static_cast<int64_t>(array_class.arrays.size());
      placed_.push_back({index, atom.id});
    }
    return budget_.Check();
  }

  int32_t TapeOf(int32_t holders, int32_t needers, bool same_memory) {
    const uint64_t key = static_cast<uint64_t>(holders) << 33 |
                         static_cast<uint64_t>(needers) << 1 | static_cast<uint64_t>(same_memory);
    const auto [entry, inserted] = tape_of_.try_emplace(key, static_cast<int32_t>(tape_of_.size()));
    if (inserted) {
      atoms_.tapes.push_back({.holders = holders, .needers = needers, .same_memory = same_memory});
    }
    return entry->second;
  }

  void AddMissing(const ArrayClass& array_class, const Atom& atom, const ArraySpec& spec) {
    const Placement& source = spec.source;
    const int64_t subgroup = spec.target.layout->tiles[atom.target_tiles.front()].subgroup;
    std::vector<int32_t> lost;
    for (int32_t tile : atom.source_tiles) {
      for (int32_t position : source.layout->tiles[tile].positions) {
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
  absl::flat_hash_map<uint64_t, int32_t> tape_of_;
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
