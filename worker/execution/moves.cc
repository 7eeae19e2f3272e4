// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/moves.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/values/element_type.h"
#include "worker/execution/box_index.h"

namespace remesh {
namespace {

int64_t StagedBytes(const Program& program, const Program::Operation& operation) {
  const int64_t bytes =
      PackedBytes(operation.box, program.arrays[operation.array].bits_per_element);
  return (bytes + kShardAlignment - 1) / kShardAlignment * kShardAlignment;
}

bool Staged(const Program::Operation& operation, const AttemptDevices& devices) {
  return operation.to_space == Space::kStaging && devices.here(operation.to);
}

absl::Status Mismatch(const Program& program, const Program::Operation& operation, int device,
                      const char* why) {
  const std::string& array = program.arrays[operation.array].name;
  const std::string box = operation.box.DebugString(), where = absl::StrCat(device);
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("the program does not fit the state: box ", box, " of ", array,
                   " on device ordinal ", where, " ", why),
      {"PROGRAM_MISMATCH", {{"array", array}, {"box", box}, {"device", where}, {"why", why}}});
}

// Finds the shard of one generation that holds a box.
class ShardIndex {
 public:
  // INVALID... as BindMoves() when an array of the program has another shape or type than here.
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
  static absl::Status CheckEqual(const Program::Array& array, const v1::AssignedArray& here) {
    ASSIGN_OR_RETURN(const ElementType type, ParseElementType(here.element_type()));
    if (BitWidth(type) == array.bits_per_element &&
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

class Binder {
 public:
  Binder(const Program& program, const AttemptDevices& devices, ShardIndex source,
         ShardIndex target, MoveList& list)
      : program_(program),
        devices_(devices),
        source_(std::move(source)),
        target_(std::move(target)),
        list_(list) {}

  absl::Status Bind(const Program::Operation& operation) {
    BoundMove move{.window = operation.window,
                   .array = operation.array,
                   .box = operation.box,
                   .from = operation.from,
                   .to = operation.to};
    if (devices_.here(operation.from)) RETURN_IF_ERROR(BindSource(operation, move));
    if (devices_.here(operation.to)) RETURN_IF_ERROR(BindTarget(operation, move));
    if (move.source == nullptr) move.peer = devices_.device(operation.from).peer;
    if (move.target == nullptr) move.peer = devices_.device(operation.to).peer;
    if (move.source != nullptr && move.source == move.target) {
      return Mismatch(program_, operation, operation.to, "is copied onto itself");
    }
    if (move.target == nullptr && Fresh(move)) {
      return Mismatch(program_, operation, operation.from,
                      "is passed on in the window it comes in");
    }
    fresh_.push_back(move.source == nullptr || Fresh(move));
    list_.moves.push_back(std::move(move));
    return absl::OkStatus();
  }

 private:
  // What moves brought to a device so far: by place, and by their exact box.
  struct Brought {
    std::vector<int> moves;
    BoxIndex boxes;  // of these
    absl::flat_hash_map<Box, int> by_box;
  };
  // Array, device ordinal, space, and in staging the key.
  using Place = std::tuple<int, int, Space, int32_t>;

  static Place PlaceIn(Space space, int device, const Program::Operation& operation) {
    return {operation.array, device, space, space == Space::kStaging ? operation.staging_key : 0};
  }

  // Whether `move` reads what comes from another host in its own window. Sends that did could wait
  // for each other in a circle.
  bool Fresh(const BoundMove& move) const {
    return std::any_of(move.after.begin(), move.after.end(), [&](int earlier) {
      return fresh_[earlier] && list_.moves[earlier].window == move.window;
    });
  }

  absl::Status BindSource(const Program::Operation& operation, BoundMove& move) {
    if (operation.from_space == Space::kSource) {
      move.from_origin = true;
      move.source =
          source_.Find(operation.array, devices_.device(operation.from).local, operation.box);
      if (move.source == nullptr)
        return Mismatch(program_, operation, operation.from, "is in no source shard");
      return absl::OkStatus();
    }
    Brought& brought = brought_[PlaceIn(operation.from_space, operation.from, operation)];
    if (const auto exact = brought.by_box.find(operation.box); exact != brought.by_box.end()) {
      move.carries = exact->second;
      move.after = {exact->second};
    } else {
      for (const int i : brought.boxes.Meeting(operation.box))
        move.after.push_back(brought.moves[i]);
    }
    for (const int earlier : move.after) {
      const ShardView* at = list_.moves[earlier].target;
      if (at->frame.Contains(operation.box)) move.source = at;
    }
    if (move.source == nullptr)
      return Mismatch(program_, operation, operation.from, "was not brought before");
    return absl::OkStatus();
  }

  absl::Status BindTarget(const Program::Operation& operation, BoundMove& move) {
    const int bits = program_.arrays[operation.array].bits_per_element;
    if (operation.to_space == Space::kStaging) {
      std::byte* data = list_.scratch->bytes().data() + staged_;
      staged_ += StagedBytes(program_, operation);
      list_.staging.push_back({data, operation.box, bits});
      move.target = &list_.staging.back();
    } else {
      move.target =
          target_.Find(operation.array, devices_.device(operation.to).local, operation.box);
    }
    if (move.target == nullptr)
      return Mismatch(program_, operation, operation.to, "is in no target shard");
    Brought& brought = brought_[PlaceIn(operation.to_space, operation.to, operation)];
    const int index = static_cast<int>(list_.moves.size());
    brought.moves.push_back(index);
    brought.boxes.Add(operation.box);
    brought.by_box[operation.box] = index;
    return absl::OkStatus();
  }

  const Program& program_;
  const AttemptDevices& devices_;
  ShardIndex source_;
  ShardIndex target_;
  MoveList& list_;
  absl::flat_hash_map<Place, Brought> brought_;
  std::vector<bool> fresh_;  // per move
  int64_t staged_ = 0;
};

}  // namespace

int64_t StagingBytes(const Program& program, const AttemptDevices& devices) {
  int64_t bytes = 0;
  for (const Program::Operation& operation : program.operations) {
    // Saturates far beyond any memory.
    if (Staged(operation, devices) && bytes < (int64_t{1} << 60))
      bytes += StagedBytes(program, operation);
  }
  return bytes;
}

absl::StatusOr<MoveList> BindMoves(Program program, const AttemptDevices& devices,
                                   std::shared_ptr<const MappedShards> source,
                                   std::shared_ptr<const MappedShards> target,
                                   std::shared_ptr<Scratch> scratch) {
  MoveList list{.windows = program.windows,
                .source = source,
                .target = target,
                .scratch = std::move(scratch)};
  ASSIGN_OR_RETURN(ShardIndex in_source, ShardIndex::Make(program, source.get()));
  ASSIGN_OR_RETURN(ShardIndex in_target, ShardIndex::Make(program, target.get()));
  list.moves.reserve(program.operations.size());
  Binder binder(program, devices, std::move(in_source), std::move(in_target), list);
  for (const Program::Operation& operation : program.operations)
    RETURN_IF_ERROR(binder.Bind(operation));
  list.arrays = std::move(program.arrays);
  return list;
}

}  // namespace remesh
