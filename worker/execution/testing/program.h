// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/program/program_proto.h"
#include "worker/execution/program.h"

// Hand-made programs as they come over the wire.
namespace remesh::worker {

// A box on its way from one device to another.
struct TestOperation {
  int32_t window = 0;
  int32_t array = 0;
  planner::Box box;
  int from = 0;
  int to = 0;
  planner::Space from_space = planner::Space::kSource;
  planner::Space to_space = planner::Space::kTarget;
  int32_t tape = 0;                   // boxes on different tapes have different values
  planner::Interval stripe = {0, 0};  // bits of the box; empty: all
  std::vector<int64_t> cuts = {};     // its own cuts, and those by other hosts' stripes
};

// A program whose stretches are `operations`, in rising windows: one round per window, one class
// per array, and a tape and a segment for each box. Devices are ids here.
class TestProgram {
 public:
  TestProgram(std::vector<proto::NamedProgram::Array> arrays, int32_t windows) {
    named_.arrays = std::move(arrays);
    named_.program.windows = windows;
    named_.program.schedule.rounds = std::max(1, windows);
  }

  // `all`: the operations of every host, so that tapes get the same numbers on all hosts; empty:
  // `operations` are all.
  v1::HostProgram Of(const std::vector<TestOperation>& operations, const std::string& fingerprint,
                     const std::vector<TestOperation>& all = {}) && {
    named_.fingerprint = fingerprint;
    for (const TestOperation& operation : all.empty() ? operations : all)
      number_of_[KeyOf(operation)] = 0;
    int32_t numbers = 0;
    for (auto& [key, number] : number_of_) number = numbers++;
    for (const TestOperation& operation : operations) {
      boxes_[operation.array].insert(operation.box);
      tape_of_[KeyOf(operation)] = 0;
      cuts_[KeyOf(operation)].insert(operation.cuts.begin(), operation.cuts.end());
      devices_.insert({operation.from, operation.to});
    }
    named_.devices.assign(devices_.begin(), devices_.end());
    AddClasses();
    AddTapes();
    for (const TestOperation& operation : operations) AddMove(operation);
    v1::HostProgram merged;
    proto::WriteProgram(named_, [&](const v1::HostProgram& chunk) {
      merged.MergeFrom(chunk);
      return true;
    });
    return merged;
  }

 private:
  using Key = std::tuple<int32_t, int32_t, planner::Box>;  // tape, array, box

  static Key KeyOf(const TestOperation& operation) {
    return {operation.tape, operation.array, operation.box};
  }

  void AddClasses() {
    int32_t next_atom = 0;
    for (size_t a = 0; a < named_.arrays.size(); ++a) {
      std::set<planner::Box>& boxes = boxes_[static_cast<int>(a)];
      if (boxes.empty()) boxes.insert(planner::Box::Whole(named_.arrays[a].shape));
      planner::ArrayClass one{.arrays = {static_cast<int32_t>(a)},
                              .element_bits = named_.arrays[a].bits_per_element,
                              .first_atom = next_atom,
                              .atom_count = static_cast<int32_t>(boxes.size()),
                              .cuts = {},
                              .boxes = {boxes.begin(), boxes.end()}};
      for (const planner::Box& box : boxes) atom_of_[{a, box}] = next_atom++;
      named_.program.geometry.classes.push_back(std::move(one));
    }
  }

  void AddTapes() {
    planner::HostProgram& program = named_.program;
    program.tape_begin.push_back(0);
    for (auto& [key, tape] : tape_of_) {
      const auto& [number, array, box] = key;
      tape = static_cast<int32_t>(program.tape_numbers.size());
      program.tape_numbers.push_back(number_of_.at(key));
      program.segment_numbers.push_back(number_of_.at(key));
      program.atoms.push_back(atom_of_.at({array, box}));
      program.tape_begin.push_back(tape + 1);
      program.segments.push_back(
          {tape, 0, box.element_count() * named_.arrays[array].bits_per_element});
      program.cut_begin.push_back(static_cast<int32_t>(program.cuts.size()));
      program.cuts.insert(program.cuts.end(), cuts_[key].begin(), cuts_[key].end());
    }
    program.cut_begin.push_back(static_cast<int32_t>(program.cuts.size()));
  }

  void AddMove(const TestOperation& operation) {
    const int32_t segment = tape_of_.at(KeyOf(operation));
    const planner::Interval whole{0, named_.program.segments[segment].size()};
    const planner::Interval stripe = operation.stripe.size() > 0 ? operation.stripe : whole;
    const auto device = [&](int id) {
      return static_cast<int32_t>(std::distance(devices_.begin(), devices_.find(id)));
    };
    named_.program.moves.push_back({.segment = segment,
                                    .from_device = device(operation.from),
                                    .to_device = device(operation.to),
                                    .from_space = operation.from_space,
                                    .to_space = operation.to_space,
                                    .round = operation.window,
                                    .lo = stripe.lo,
                                    .hi = stripe.hi});
  }

  proto::NamedProgram named_;
  std::set<int> devices_;
  std::map<int, std::set<planner::Box>> boxes_;
  std::map<std::pair<int, planner::Box>, int32_t> atom_of_;
  std::map<Key, int32_t> tape_of_;
  std::map<Key, int32_t> number_of_;  // of its tape, in the plan
  std::map<Key, std::set<int64_t>> cuts_;
};

}  // namespace remesh::worker
