// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text/utf8.h"
#include "planner/values/element_type.h"
#include "proto/program/program_proto.h"

namespace remesh::proto {

using planner::ArrayClass;
using planner::Move;
using planner::Space;

namespace {

constexpr size_t kNumberBytes = 10;  // the most bytes of a number

v1::Space ToProto(Space space) {
  switch (space) {
    case Space::kSource:
      return v1::SPACE_SOURCE;
    case Space::kTarget:
      return v1::SPACE_TARGET;
    case Space::kStaging:
      return v1::SPACE_STAGING;
  }
  return v1::SPACE_UNSPECIFIED;
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  size_t bytes = 0;
  while (bytes < a.size() && bytes < b.size() && a[bytes] == b[bytes]) ++bytes;
  while (bytes > 0 && !BeginsCharacter(a, bytes)) --bytes;
  return bytes;
}

size_t CommonSuffix(std::string_view a, std::string_view b) {
  size_t bytes = 0;
  while (bytes < a.size() && bytes < b.size() && a[a.size() - 1 - bytes] == b[b.size() - 1 - bytes])
    ++bytes;
  while (bytes > 0 && !BeginsCharacter(a, a.size() - bytes)) --bytes;
  return bytes;
}

// Distributes columns to chunks: when a chunk is full, the next data goes into a new one.
class Writer {
 public:
  Writer(const NamedProgram& named, absl::FunctionRef<bool(const v1::HostProgram&)> visit,
         size_t chunk_bytes)
      : named_(named), program_(named.program), visit_(visit), chunk_bytes_(chunk_bytes) {}

  void Write() {
    chunk_.set_fingerprint(named_.fingerprint);
    AddSchedule();
    AddNames();
    for (const ArrayClass& one : program_.geometry.classes) AddClass(one);
    AddTapes();
    AddSegments();
    for (const Move& move : program_.moves) AddMove(move);
    AddParts();
    for (const int64_t device : named_.devices) Room(kNumberBytes).add_devices(device);
    if (wanted_) visit_(chunk_);
  }

 private:
  // Returns the chunk for the next `bytes` bytes.
  v1::HostProgram& Room(size_t bytes) {
    if (bytes_ + bytes > chunk_bytes_ && bytes_ > 0) {
      wanted_ = wanted_ && visit_(chunk_);
      chunk_.Clear();
      bytes_ = 0;
    }
    bytes_ += bytes;
    return chunk_;
  }

  void AddSchedule() {
    v1::ProgramSchedule& schedule = *chunk_.mutable_schedule();
    schedule.set_windows(program_.windows);
    schedule.set_parts(program_.schedule.parts);
    schedule.set_rounds(program_.schedule.rounds);
    schedule.set_hops(program_.schedule.hops);
    schedule.set_min_part_bits(program_.schedule.min_part_bits);
    schedule.set_slack_bits(program_.schedule.slack_bits);
  }

  void AddNames() {
    std::string_view before;
    for (const NamedProgram::Array& array : named_.arrays) {
      const std::string_view name = array.name;
      const size_t prefix = CommonPrefix(before, name);
      const size_t suffix = CommonSuffix(before.substr(prefix), name.substr(prefix));
      const std::string_view middle = name.substr(prefix, name.size() - prefix - suffix);
      v1::ProgramNames& names = *Room(middle.size() + 3 * kNumberBytes).mutable_names();
      names.add_prefix_bytes(static_cast<int32_t>(prefix));
      names.add_middles(std::string(middle));
      names.add_suffix_bytes(static_cast<int32_t>(suffix));
      before = name;
    }
  }

  void AddClass(const ArrayClass& one) {
    const planner::Shape& shape = named_.arrays[one.arrays.front()].shape;
    v1::ProgramClasses& classes = *Room((4 + shape.size()) * kNumberBytes).mutable_classes();
    classes.add_arrays(static_cast<int32_t>(one.arrays.size()));
    classes.add_element_bits(one.element_bits);
    classes.add_ranks(static_cast<int32_t>(shape.size()));
    for (const int64_t extent : shape) classes.add_shapes(extent);
    classes.add_atoms(one.atom_count);
    for (const planner::Box& cell : one.boxes) {
      for (const planner::Interval& dim : cell.dims) {
        v1::ProgramClasses& room = *Room(2 * kNumberBytes).mutable_classes();
        room.add_atom_begins(dim.lo);
        room.add_atom_extents(dim.size());
      }
    }
  }

  void AddTapes() {
    int32_t number = 0;
    for (size_t s = 0; s < program_.tape_numbers.size(); ++s) {
      v1::ProgramTapes& tapes = *Room(2 * kNumberBytes).mutable_tapes();
      tapes.add_number_steps(program_.tape_numbers[s] -
                             std::exchange(number, program_.tape_numbers[s]));
      tapes.add_atoms(program_.tape_begin[s + 1] - program_.tape_begin[s]);
    }
    int32_t last = 0;
    for (const int32_t cell : program_.atoms)
      Room(kNumberBytes).mutable_tapes()->add_atom_steps(cell - std::exchange(last, cell));
  }

  void AddSegments() {
    int32_t number = 0;
    int32_t tape = 0;
    for (size_t i = 0; i < program_.segments.size(); ++i) {
      const planner::Segment& segment = program_.segments[i];
      v1::ProgramSegments& segments = *Room(4 * kNumberBytes).mutable_segments();
      segments.add_number_steps(program_.segment_numbers[i] -
                                std::exchange(number, program_.segment_numbers[i]));
      segments.add_tape_steps(segment.tape - std::exchange(tape, segment.tape));
      segments.add_begins(segment.lo);
      segments.add_sizes(segment.size());
    }
    if (program_.cuts.empty()) return;
    for (int32_t s = 0; s < std::ssize(program_.segments); ++s) {
      const absl::Span<const int64_t> cuts = program_.CutsOf(s);
      Room(kNumberBytes).mutable_segments()->add_cuts(static_cast<int32_t>(cuts.size()));
      for (const int64_t cut : cuts) Room(kNumberBytes).mutable_segments()->add_cut_positions(cut);
    }
  }

  void AddMove(const Move& move) {
    v1::ProgramMoves& moves = *Room(7 * kNumberBytes).mutable_moves();
    moves.add_round_steps(move.round - std::exchange(round_, move.round));
    moves.add_hops(move.hop);
    moves.add_segment_steps(move.segment - std::exchange(segment_, move.segment));
    moves.add_from_devices(move.from_device);
    moves.add_to_devices(move.to_device);
    moves.add_from_spaces(ToProto(move.from_space));
    moves.add_to_spaces(ToProto(move.to_space));
  }

  void AddParts() {
    int32_t last = 0;
    for (size_t i = 0; i < program_.moves.size(); ++i) {
      const Move& move = program_.moves[i];
      if (move.lo == 0 && move.hi == program_.segments[move.segment].size()) continue;
      const auto index = static_cast<int32_t>(i);
      v1::ProgramMoves& moves = *Room(3 * kNumberBytes).mutable_moves();
      moves.add_stripe_steps(index - std::exchange(last, index));
      moves.add_stripe_begins(move.lo);
      moves.add_stripe_sizes(move.hi - move.lo);
    }
  }

  const NamedProgram& named_;
  const planner::HostProgram& program_;
  const absl::FunctionRef<bool(const v1::HostProgram&)> visit_;
  const size_t chunk_bytes_;
  v1::HostProgram chunk_;
  size_t bytes_ = 0;
  bool wanted_ = true;
  int32_t round_ = 0;
  int32_t segment_ = 0;
};

}  // namespace

NamedProgram ProgramOfHost(const planner::Plan& plan, const planner::CanonicalRequest& request,
                           const planner::Binding& binding, int32_t host) {
  return InCallersNames(ProgramOfHost(plan, host), request, binding);
}

NamedProgram InCallersNames(planner::HostProgram program, const planner::CanonicalRequest& request,
                            const planner::Binding& binding) {
  NamedProgram named{.fingerprint = request.fingerprint,
                     .program = std::move(program),
                     .arrays = {},
                     .devices = {}};
  for (ArrayClass& one : named.program.geometry.classes) {
    for (int32_t& array : one.arrays) {
      const planner::ArraySpec& spec = request.request.arrays[array];
      named.arrays.push_back(
          {binding.array_names[array], spec.shape, planner::BitWidth(spec.element_type)});
      array = static_cast<int32_t>(named.arrays.size()) - 1;
    }
  }
  std::vector<int32_t> devices;
  for (const Move& move : named.program.moves) {
    devices.push_back(move.from_device);
    devices.push_back(move.to_device);
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  for (Move& move : named.program.moves) {
    for (int32_t* device : {&move.from_device, &move.to_device}) {
      *device = static_cast<int32_t>(std::lower_bound(devices.begin(), devices.end(), *device) -
                                     devices.begin());
    }
  }
  for (const int32_t device : devices) named.devices.push_back(binding.device_ids[device]);
  return named;
}

void WriteProgram(const NamedProgram& program,
                  absl::FunctionRef<bool(const v1::HostProgram&)> visit, size_t chunk_bytes) {
  Writer(program, visit, chunk_bytes).Write();
}

}  // namespace remesh::proto
