// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "proto/convert/program_proto.h"
#include "worker/execution/program.h"

// Hand-made programs as they come over the wire.
namespace remesh::testing {

// A program whose expansion is `operations`, which are by rising windows: a round a window, an
// array a class, a tape for each array and staging key, and on it a segment for each box. Devices
// are ids here.
class TestProgram {
 public:
  TestProgram(std::vector<NamedProgram::Array> arrays, int32_t windows) {
    named_.arrays = std::move(arrays);
    named_.program.windows = windows;
    named_.program.schedule.rounds = std::max(1, windows);
  }

  v1::HostProgram Of(const std::vector<Program::Operation>& operations,
                          const std::string& fingerprint) && {
    named_.fingerprint = fingerprint;
    for (const Program::Operation& operation : operations) {
      boxes_[operation.array].insert(operation.box);
      tapes_[{operation.staging_key, operation.array}].insert(operation.box);
      devices_.insert({operation.from, operation.to});
    }
    named_.devices.assign(devices_.begin(), devices_.end());
    AddClasses();
    AddTapes();
    for (const Program::Operation& operation : operations) AddMove(operation);
    v1::HostProgram merged;
    WriteProgram(named_, [&](const v1::HostProgram& chunk) {
      merged.MergeFrom(chunk);
      return true;
    });
    return merged;
  }

 private:
  void AddClasses() {
    int32_t next_cell = 0;
    for (size_t a = 0; a < named_.arrays.size(); ++a) {
      std::set<Box>& boxes = boxes_[static_cast<int>(a)];
      if (boxes.empty()) boxes.insert(Box::Whole(named_.arrays[a].shape));
      ArrayClass one{.arrays = {static_cast<int32_t>(a)},
                     .element_bits = named_.arrays[a].bits_per_element,
                     .first_cell = next_cell,
                     .cell_count = static_cast<int32_t>(boxes.size()),
                     .cuts = {},
                     .boxes = {boxes.begin(), boxes.end()}};
      for (const Box& box : boxes) cell_of_[{a, box}] = next_cell++;
      named_.program.tapes.classes.push_back(std::move(one));
    }
  }

  void AddTapes() {
    HostProgram& program = named_.program;
    program.sub_begin.push_back(0);
    for (const auto& [place, boxes] : tapes_) {
      const auto& [key, array] = place;
      const auto sub = static_cast<int32_t>(program.sub_numbers.size());
      // Numbers say which key, and rise with the arrays.
      program.sub_numbers.push_back(key * 100 + array);
      int64_t begin = 0;
      for (const Box& box : boxes) {
        program.cells.push_back(cell_of_.at({array, box}));
        const int64_t end = begin + box.element_count() * named_.arrays[array].bits_per_element;
        segment_of_[{place, box}] = static_cast<int32_t>(program.segments.size());
        program.segment_numbers.push_back(static_cast<int32_t>(program.segments.size()));
        program.segments.push_back({sub, std::exchange(begin, end), end});
      }
      program.sub_begin.push_back(static_cast<int32_t>(program.cells.size()));
    }
  }

  void AddMove(const Program::Operation& operation) {
    const int32_t segment =
        segment_of_.at({{operation.staging_key, operation.array}, operation.box});
    const auto device = [&](int id) {
      return static_cast<int32_t>(std::distance(devices_.begin(), devices_.find(id)));
    };
    named_.program.moves.push_back({.segment = segment,
                                    .from_device = device(operation.from),
                                    .to_device = device(operation.to),
                                    .from_space = operation.from_space,
                                    .to_space = operation.to_space,
                                    .round = operation.window,
                                    .hi = named_.program.segments[segment].size()});
  }

  using Place = std::pair<int, int>;  // staging key, array
  NamedProgram named_;
  std::set<int> devices_;
  std::map<int, std::set<Box>> boxes_;
  std::map<Place, std::set<Box>> tapes_;
  std::map<std::pair<int, Box>, int32_t> cell_of_;
  std::map<std::pair<Place, Box>, int32_t> segment_of_;
};

}  // namespace remesh::testing
