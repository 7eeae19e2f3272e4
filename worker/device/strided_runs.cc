// SPDX-License-Identifier: Apache-2.0
#include "worker/device/strided_runs.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "worker/device/bit_copy.h"

namespace remesh {
namespace {

// A constant size becomes a few moves instead of a call.
template <int64_t kBytes>
void CopyFixedRows(const std::byte* source, int64_t source_stride, std::byte* target,
                   int64_t target_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(target + i * target_stride, source + i * source_stride, kBytes);
  }
}

}  // namespace

bool StridedRuns::byte_aligned() const {
  int64_t any = run_bits | source_bit | target_bit;
  for (const Loop& loop : loops) any |= loop.source_stride | loop.target_stride;
  return any % 8 == 0;
}

StridedRuns MakeRuns(const Box& source_frame, const Box& target_frame, const Box& box,
                     int bits_per_element) {
  REMESH_CHECK(source_frame.Contains(box) && target_frame.Contains(box));
  StridedRuns runs;
  if (box.empty()) return runs;
  runs.run_bits = bits_per_element;
  int64_t source_stride = bits_per_element, target_stride = bits_per_element;
  for (int d = box.rank() - 1; d >= 0; --d) {
    const int64_t count = box.dims[d].size();
    runs.source_bit += (box.dims[d].lo - source_frame.dims[d].lo) * source_stride;
    runs.target_bit += (box.dims[d].lo - target_frame.dims[d].lo) * target_stride;
    StridedRuns::Loop* inner = runs.loops.empty() ? nullptr : &runs.loops.back();
    if (count == 1) {
      // Nothing to step over.
    } else if (inner == nullptr && source_stride == runs.run_bits &&
               target_stride == runs.run_bits) {
      runs.run_bits *= count;
    } else if (inner != nullptr && source_stride == inner->count * inner->source_stride &&
               target_stride == inner->count * inner->target_stride) {
      inner->count *= count;
    } else {
      runs.loops.push_back({count, source_stride, target_stride});
    }
    source_stride *= source_frame.dims[d].size();
    target_stride *= target_frame.dims[d].size();
  }
  std::reverse(runs.loops.begin(), runs.loops.end());
  return runs;
}

void CopyRows(const std::byte* source, int64_t source_stride, std::byte* target,
              int64_t target_stride, int64_t count, int64_t row_bytes) {
  switch (row_bytes) {
    case 1:
      return CopyFixedRows<1>(source, source_stride, target, target_stride, count);
    case 2:
      return CopyFixedRows<2>(source, source_stride, target, target_stride, count);
    case 4:
      return CopyFixedRows<4>(source, source_stride, target, target_stride, count);
    case 8:
      return CopyFixedRows<8>(source, source_stride, target, target_stride, count);
    case 16:
      return CopyFixedRows<16>(source, source_stride, target, target_stride, count);
    case 32:
      return CopyFixedRows<32>(source, source_stride, target, target_stride, count);
    case 64:
      return CopyFixedRows<64>(source, source_stride, target, target_stride, count);
    default:
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(target + i * target_stride, source + i * source_stride,
                    static_cast<size_t>(row_bytes));
      }
  }
}

void CopyRuns(const StridedRuns& runs, const std::byte* source, std::byte* target) {
  if (runs.run_bits == 0) return;
  const size_t outer = runs.loops.empty() ? 0 : runs.loops.size() - 1;
  const StridedRuns::Loop rows =
      runs.loops.empty() ? StridedRuns::Loop{1, 0, 0} : runs.loops.back();
  if (runs.byte_aligned()) {
    ForEachStart(runs, outer, [&](int64_t source_bit, int64_t target_bit) {
      CopyRows(source + source_bit / 8, rows.source_stride / 8, target + target_bit / 8,
               rows.target_stride / 8, rows.count, runs.run_bits / 8);
    });
    return;
  }
  ForEachStart(runs, outer, [&](int64_t source_bit, int64_t target_bit) {
    for (int64_t i = 0; i < rows.count; ++i) {
      CopyBits(source, source_bit + i * rows.source_stride, target,
               target_bit + i * rows.target_stride, runs.run_bits);
    }
  });
}

}  // namespace remesh
