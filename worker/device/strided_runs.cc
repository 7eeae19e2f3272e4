// SPDX-License-Identifier: Apache-2.0
#include "worker/device/strided_runs.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace remesh::worker {
namespace {

// With a constant size the compiler emits a few moves instead of a call.
template <int64_t kBytes>
void CopyFixedRows(const std::byte* source, int64_t source_stride, std::byte* target,
                   int64_t target_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(target + i * target_stride, source + i * source_stride, kBytes);
  }
}

}  // namespace

StridedRuns MakeRuns(const planner::Box& frame, const planner::Box& box, int bits_per_element) {
  REMESH_CHECK(frame.Contains(box));
  StridedRuns runs;
  if (box.empty()) return runs;
  runs.run_bits = bits_per_element;
  int64_t stride = bits_per_element;
  for (int d = box.rank() - 1; d >= 0; --d) {
    const int64_t count = box.dims[d].size();
    runs.bit += (box.dims[d].lo - frame.dims[d].lo) * stride;
    StridedRuns::Loop* inner = runs.loops.empty() ? nullptr : &runs.loops.back();
    if (count == 1) {
      // There is nothing to step over.
    } else if (inner == nullptr && stride == runs.run_bits) {
      runs.run_bits *= count;
    } else if (inner != nullptr && stride == inner->count * inner->stride) {
      inner->count *= count;
    } else {
      runs.loops.push_back({count, stride});
    }
    stride *= frame.dims[d].size();
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

}  // namespace remesh::worker
