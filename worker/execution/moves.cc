// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/moves.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/int_math.h"
#include "base/status_macros.h"
#include "planner/values/element_type.h"
#include "planner/values/packing.h"
#include "worker/execution/box_index.h"

namespace remesh::worker {

using planner::Box;
using planner::Space;
using planner::Stretch;

namespace {

bool Staged(const Stretch& stretch, const AttemptDevices& devices) {
  return stretch.to_space == Space::kStaging && devices.here(stretch.to_device);
}

absl::Status ProgramMismatch(const Program::Place& place, int device, const char* why) {
  const std::string box = place.box.DebugString(), where = absl::StrCat(device);
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("the program does not fit the state: box ", box, " of ",
                                place.array, " on device ordinal ", where, " ", why),
                   {"PROGRAM_MISMATCH",
                    {{"array", place.array}, {"box", box}, {"device", where}, {"why", why}}});
}

absl::Status ProgramMismatch(const Program& program, const Stretch& stretch, int device,
                             const char* why) {
  return ProgramMismatch(program.PlaceOn(stretch.tape, stretch.lo, stretch.hi), device, why);
}

// Finds the shard of one generation that holds a box.
class ShardIndex {
 public:
  // FAILED_PRECONDITION as BindMoves() if an array of the program has another shape or type here.
  static absl::StatusOr<ShardIndex> Make(const Program& program, const MappedShards* shards) {
    ShardIndex index;
    if (shards == nullptr) return index;
    absl::flat_hash_map<std::string, int> array_of_name;
    for (size_t i = 0; i < program.arrays.size(); ++i)
      array_of_name[program.arrays[i].name] = static_cast<int>(i);
    std::vector<int> program_array(shards->assignment.arrays_size(), -1);
    for (int i = 0; i < shards->assignment.arrays_size(); ++i) {
      const v1::AssignedArray& here = shards->assignment.arrays(i);
      const auto it = array_of_name.find(here.name());
      if (it == array_of_name.end()) continue;
      RETURN_IF_ERROR(CheckEqual(program.arrays[it->second], here));
      program_array[i] = it->second;
    }
    for (int i = 0; i < shards->assignment.shards_size(); ++i) {
      const v1::ShardSpec& shard = shards->assignment.shards(i);
      Held& held = index.shards_[{program_array[shard.array()], shard.local_device()}];
      held.shards.push_back(&shards->shards[i]);
      held.frames.Add(shards->shards[i].frame);
    }
    return index;
  }

  const ShardView* Find(int array, int local_device, const Box& box) {
    const auto it = shards_.find({array, local_device});
    if (it == shards_.end()) return nullptr;
    for (const int i : it->second.frames.Meeting(box)) {
      if (it->second.shards[i]->frame.Contains(box)) return it->second.shards[i];
    }
    return nullptr;
  }

 private:
  static absl::Status CheckEqual(const proto::NamedProgram::Array& array,
                                 const v1::AssignedArray& here) {
    ASSIGN_OR_RETURN(const planner::ElementType type,
                     planner::ParseElementType(here.element_type()));
    if (planner::BitWidth(type) == array.bits_per_element &&
        std::equal(array.shape.begin(), array.shape.end(), here.shape().begin(),
                   here.shape().end())) {
      return absl::OkStatus();
    }
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("array ", array.name, " of the program differs from the state's"),
                     {"PROGRAM_MISMATCH", {{"array", array.name}}});
  }

  struct Held {
    std::vector<const ShardView*> shards;
    BoxIndex frames;
  };
  absl::flat_hash_map<std::pair<int, int>, Held> shards_;  // by array and local device
};

// The bits of all shards of a generation.
int64_t BitsOf(const MappedShards* shards) {
  int64_t bits = 0;
  if (shards == nullptr) return bits;
  for (const ShardView& shard : shards->shards)
    bits += shard.frame.element_count() * shard.bits_per_element;
  return bits;
}

class Binder {
 public:
  Binder(const AttemptDevices& devices, std::vector<std::byte*> staging, ShardIndex source,
         ShardIndex target, MoveList& list)
      : program_(list.program),
        devices_(devices),
        staging_(std::move(staging)),
        source_(std::move(source)),
        target_(std::move(target)),
        list_(list) {}

  absl::Status Bind(const Stretch& stretch) {
    BoundMove move{.window = stretch.window,
                   .tape = stretch.tape,
                   .lo = stretch.lo,
                   .hi = stretch.hi,
                   .from = stretch.from_device,
                   .to = stretch.to_device,
                   .origin = static_cast<int>(list_.moves.size())};
    if (devices_.here(move.from)) RETURN_IF_ERROR(BindSource(stretch, move));
    if (devices_.here(move.to)) RETURN_IF_ERROR(BindTarget(stretch, move));
    if (move.source == nullptr) move.peer = devices_.device(move.from).peer;
    if (move.target == nullptr) move.peer = devices_.device(move.to).peer;
    list_.moves.push_back(move);
    return absl::OkStatus();
  }

  // Target memory that no stretch fills would expose its earlier content. So no two stretches of a
  // tape may overlap, no two tapes may hold the same elements, and all stretches together must have
  // as many bits as the target.
  absl::Status CheckFilled() {
    for (const auto& [place, boxes] : targets_) {
      BoxIndex index;
      for (const Box& box : boxes) index.Add(box);
      for (const Box& box : boxes) {
        if (index.Meeting(box).size() == 1) continue;
        return ProgramMismatch({program_.arrays[place.first].name, box}, place.second,
                               "is on two tapes");
      }
    }
    for (auto& [place, ranges] : filled_) {
      std::sort(ranges.begin(), ranges.end());
      for (size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i].lo >= ranges[i - 1].hi) continue;
        return ProgramMismatch(program_.PlaceOn(place.first, ranges[i].lo, ranges[i].hi),
                               place.second, "is brought twice");
      }
    }
    if (filled_bits_ == BitsOf(list_.target.get())) return absl::OkStatus();
    const std::string filled = absl::StrCat(filled_bits_),
                      bits = absl::StrCat(BitsOf(list_.target.get()));
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("the program fills ", filled, " of the target's ", bits, " bits on this host"),
        {"PROGRAM_MISMATCH", {{"filled_bits", filled}, {"bits", bits}}});
  }

 private:
  // Tape, where on it, device ordinal, space.
  using Place = std::tuple<int32_t, int64_t, int, Space>;

  absl::Status BindSource(const Stretch& stretch, BoundMove& move) {
    if (stretch.from_space == Space::kSource) {
      move.from_origin = true;
      ASSIGN_OR_RETURN(move.source, ViewOf(source_, stretch, move.from, Space::kSource));
      return absl::OkStatus();
    }
    const auto brought =
        brought_.find({stretch.tape, stretch.lo, stretch.from_device, stretch.from_space});
    if (brought == brought_.end() || list_.moves[brought->second].hi != stretch.hi)
      return ProgramMismatch(program_, stretch, stretch.from_device, "was not brought before");
    const BoundMove& earlier = list_.moves[brought->second];
    if (earlier.window == stretch.window) {
      return ProgramMismatch(program_, stretch, stretch.from_device,
                             "is passed on in the window it comes in");
    }
    move.carries = brought->second;
    move.origin = earlier.origin;
    move.source = earlier.target;
    return absl::OkStatus();
  }

  absl::Status BindTarget(const Stretch& stretch, BoundMove& move) {
    if (stretch.to_space == Space::kStaging) {
      std::byte* const area = staging_[devices_.device(move.to).local];
      move.target = &list_.views.emplace_back(area + stretch.staged_at, stretch.lo, stretch.hi);
    } else {
      filled_bits_ += stretch.hi - stretch.lo;
      filled_[{stretch.tape, move.to}].push_back({stretch.lo, stretch.hi});
      ASSIGN_OR_RETURN(move.target, ViewOf(target_, stretch, move.to, Space::kTarget));
    }
    const Place place{stretch.tape, stretch.lo, stretch.to_device, stretch.to_space};
    if (brought_.try_emplace(place, static_cast<int>(list_.moves.size())).second)
      return absl::OkStatus();
    return ProgramMismatch(program_, stretch, stretch.to_device, "is brought twice");
  }

  // The view of the stretch's whole tape on a device of this host.
  absl::StatusOr<const TapeView*> ViewOf(ShardIndex& shards, const Stretch& stretch, int device,
                                         Space space) {
    const auto [it, added] = views_.try_emplace({stretch.tape, 0, device, space}, nullptr);
    if (!added) return it->second;
    TapeView& view = list_.views.emplace_back();
    it->second = &view;
    const int local = devices_.device(device).local;
    const planner::TapeRuns tape = program_.tapes.RunsOfTape(stretch.tape);
    for (const planner::TapeRun& run : tape.runs) {
      const planner::ArrayClass& one = program_.tapes.geometry.classes[run.array_class];
      for (const int32_t array : one.arrays) {
        for (int32_t c = 0; c < run.atom_count; ++c) {
          const Box box = one.AtomBox(tape.atoms[run.first_atom + c]);
          const ShardView* shard = shards.Find(array, local, box);
          if (shard == nullptr) {
            return ProgramMismatch(
                {program_.arrays[array].name, box}, device,
                space == Space::kSource ? "is in no source shard" : "is in no target shard");
          }
          if (space == Space::kTarget) targets_[{array, device}].push_back(box);
          view.Add(*shard, box);
        }
      }
    }
    return it->second;
  }

  const Program& program_;
  const AttemptDevices& devices_;
  const std::vector<std::byte*> staging_;  // by local device
  ShardIndex source_;
  ShardIndex target_;
  MoveList& list_;
  absl::flat_hash_map<Place, int> brought_;            // by which move
  absl::flat_hash_map<Place, const TapeView*> views_;  // of whole tapes
  int64_t filled_bits_ = 0;                            // of the target, here
  absl::flat_hash_map<std::pair<int32_t, int>, std::vector<planner::Interval>>
      filled_;                                                              // of tape, device
  absl::flat_hash_map<std::pair<int32_t, int>, std::vector<Box>> targets_;  // of array, device
};

}  // namespace

std::vector<int64_t> StagingBytes(const Program& program, const AttemptDevices& devices) {
  std::vector<int64_t> bytes(devices.local_count(), 0);
  for (const Stretch& stretch : program.stretches) {
    if (!Staged(stretch, devices)) continue;
    int64_t& of_device = bytes[devices.device(stretch.to_device).local];
    of_device =
        std::max(of_device, stretch.staged_at + planner::StoredBytes(stretch.hi - stretch.lo));
  }
  return bytes;
}

absl::StatusOr<MoveList> BindMoves(Program program, const AttemptDevices& devices,
                                   std::shared_ptr<const MappedShards> source,
                                   std::shared_ptr<const MappedShards> target,
                                   const std::vector<std::byte*>& staging,
                                   const WholeMessages& whole) {
  MoveList list{
      .program = std::move(program), .source = std::move(source), .target = std::move(target)};
  for (int ordinal = 0; ordinal < devices.count(); ++ordinal)
    list.local_device.push_back(devices.here(ordinal) ? devices.device(ordinal).local : -1);
  ASSIGN_OR_RETURN(ShardIndex in_source, ShardIndex::Make(list.program, list.source.get()));
  ASSIGN_OR_RETURN(ShardIndex in_target, ShardIndex::Make(list.program, list.target.get()));
  list.moves.reserve(list.program.stretches.size());
  Binder binder(devices, staging, std::move(in_source), std::move(in_target), list);
  for (const Stretch& stretch : list.program.stretches) RETURN_IF_ERROR(binder.Bind(stretch));
  RETURN_IF_ERROR(binder.CheckFilled());
  list.program.stretches = {};
  list.messages = MessageList(list.moves, list.program.windows(), whole, devices.numbers());
  return list;
}

}  // namespace remesh::worker
