// SPDX-License-Identifier: Apache-2.0
#include "planner/atoms/tape.h"

#include <algorithm>

namespace remesh::planner {
namespace {

// Visits the elements [begin, end) of the part of `box` that `fixed` dimensions have narrowed down
// to dimensions dim and up.
void VisitRange(const Box& box, int dim, int64_t begin, int64_t end,
                absl::FunctionRef<void(const Box&)> visit) {
  if (begin >= end) return;
  int64_t row = 1;  // elements of one index of dimension `dim`
  for (int d = dim + 1; d < box.rank(); ++d) row *= box.dims[d].size();
  if (dim >= box.rank() || (begin == 0 && end == row * box.dims[dim].size())) {
    visit(box);
    return;
  }
  const int64_t first = begin / row;
  const int64_t last = end / row;
  const auto slice = [&](int64_t lo, int64_t hi) {
    Box part = box;
    part.dims[dim] = {box.dims[dim].lo + lo, box.dims[dim].lo + hi};
    return part;
  };
  if (first == last) {
    VisitRange(slice(first, first + 1), dim + 1, begin - first * row, end - first * row, visit);
    return;
  }
  const int64_t whole = first + (begin % row != 0 ? 1 : 0);
  if (whole != first) VisitRange(slice(first, first + 1), dim + 1, begin % row, row, visit);
  if (whole < last) visit(slice(whole, last));
  if (end % row != 0) VisitRange(slice(last, last + 1), dim + 1, 0, end % row, visit);
}

// The run that holds `position`, or the last one.
const TapeRun& RunAt(absl::Span<const TapeRun> runs, int64_t position) {
  const auto after = std::upper_bound(runs.begin() + 1, runs.end(), position,
                                      [](int64_t p, const TapeRun& run) { return p < run.begin; });
  return *(after - 1);
}

// `offset` (bits into a box), rounded to the nearest multiple of the largest row that does not move
// it by more than `slack`.
int64_t RoundedInBox(const Box& box, int64_t offset, int64_t width, int64_t slack) {
  int64_t row = width;
  for (int d = box.rank() - 1; d >= 0 && row * box.dims[d].size() <= 2 * slack; --d) {
    row *= box.dims[d].size();
  }
  if (row == width) return offset - offset % width;
  return std::min((offset + row / 2) / row * row, box.element_count() * width);
}

}  // namespace

Box ArrayClass::AtomBox(int32_t atom) const {
  atom -= first_atom;
  if (!boxes.empty()) return boxes[atom];
  Box box;
  box.dims.resize(cuts.size());
  for (size_t d = cuts.size(); d-- > 0;) {
    const int32_t count = static_cast<int32_t>(cuts[d].size()) - 1;
    box.dims[d] = {cuts[d][atom % count], cuts[d][atom % count + 1]};
    atom /= count;
  }
  return box;
}

TapeRuns AtomGeometry::RunsOf(absl::Span<const int32_t> atoms) const {
  TapeRuns tape{.atoms = atoms, .runs = {}};
  for (size_t i = 0; i < atoms.size(); ++i) {
    const bool same =
        !tape.runs.empty() && atoms[i] < classes[tape.runs.back().array_class].first_atom +
                                             classes[tape.runs.back().array_class].atom_count;
    if (!same) {
      const auto after = std::upper_bound(
          classes.begin(), classes.end(), atoms[i],
          [](int32_t atom, const ArrayClass& one) { return atom < one.first_atom; });
      tape.runs.push_back({.array_class = static_cast<int32_t>(after - classes.begin()) - 1,
                           .first_atom = static_cast<int32_t>(i),
                           .begin = tape.bits});
    }
    TapeRun& run = tape.runs.back();
    const ArrayClass& one = classes[run.array_class];
    const int64_t bits = one.AtomBox(atoms[i]).element_count() * one.element_bits;
    ++run.atom_count;
    run.bits_per_array += bits;
    tape.bits += bits * static_cast<int64_t>(one.arrays.size());
    tape.unit_bits = std::max(tape.unit_bits, one.element_bits);
  }
  return tape;
}

void ForEachBoxOfRange(const Box& box, int64_t begin, int64_t end,
                       absl::FunctionRef<void(const Box&)> visit) {
  VisitRange(box, 0, begin, end, visit);
}

int64_t AtomGeometry::Rounded(const TapeRuns& tape, int64_t position, int64_t slack_bits) const {
  const TapeRun& run = RunAt(tape.runs, position);
  const ArrayClass& array_class = classes[run.array_class];
  const int64_t width = array_class.element_bits;
  int64_t offset = (position - run.begin) % run.bits_per_array;
  if (slack_bits < width) return position - offset % width;
  for (int32_t c = 0; c < run.atom_count; ++c) {
    const Box box = array_class.AtomBox(tape.atoms[run.first_atom + c]);
    const int64_t bits = box.element_count() * width;
    if (offset < bits) return position - offset + RoundedInBox(box, offset, width, slack_bits);
    offset -= bits;
  }
  return position;
}

void AtomGeometry::ForEachBox(const TapeRuns& tape, int64_t begin, int64_t end, int64_t slack_bits,
                              absl::FunctionRef<void(int32_t, const Box&)> visit) const {
  begin = Rounded(tape, begin, slack_bits);
  end = Rounded(tape, end, slack_bits);
  while (begin < end) {
    const TapeRun& run = RunAt(tape.runs, begin);
    const ArrayClass& array_class = classes[run.array_class];
    const int64_t in_run = begin - run.begin;
    const int64_t index = in_run / run.bits_per_array;
    int64_t offset = in_run % run.bits_per_array;
    for (int32_t c = 0; c < run.atom_count && begin < end; ++c) {
      const Box box = array_class.AtomBox(tape.atoms[run.first_atom + c]);
      const int64_t bits = box.element_count() * array_class.element_bits;
      if (offset >= bits) {
        offset -= bits;
        continue;
      }
      const int64_t taken = std::min(bits - offset, end - begin);
      ForEachBoxOfRange(box, offset / array_class.element_bits,
                        (offset + taken) / array_class.element_bits,
                        [&](const Box& part) { visit(array_class.arrays[index], part); });
      begin += taken;
      offset = 0;
    }
  }
}

}  // namespace remesh::planner
