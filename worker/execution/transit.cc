// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/transit.h"

#include <algorithm>
#include <numeric>

#include "planner/schedule/transit.h"
#include "worker/device/chunks.h"
#include "worker/execution/direct_runs.h"

namespace remesh::worker {
namespace {

// bytes_of(slice) is 0 for a slice that has no place.
template <typename BytesOf>
TransitLayout LayOut(const MoveList& list, const BytesOf& bytes_of) {
  const MessageList& messages = list.messages;
  int local_count = 0;
  for (const int local : list.local_device) local_count = std::max(local_count, local + 1);
  TransitLayout layout;
  layout.offsets.resize(messages.slices().size(), -1);
  const auto device_of = [&](const Message& message) {
    return list.local_device[message.outgoing ? message.from : message.to];
  };
  std::vector<planner::TransitArea> areas(local_count);
  for (int32_t window = 0; window < list.program.windows(); ++window) {
    std::vector<int64_t> used(local_count, 0);
    for (const int index : messages.InOrder(window)) {
      const Slice& slice = messages.slices()[index];
      const Message& message = messages.MessageOf(slice);
      const int64_t bytes = message.peer < 0 ? 0 : bytes_of(slice);
      if (bytes == 0) continue;
      layout.offsets[index] = used[device_of(message)];
      used[device_of(message)] += bytes;
    }
    for (int d = 0; d < local_count; ++d) areas[d].Fit(window, used[d]);
  }
  for (const planner::TransitArea& area : areas) layout.bytes.push_back(area.bytes());
  for (const Message& message : messages.messages()) {
    for (int s = message.first_slice; s < message.first_slice + message.slice_count; ++s) {
      if (layout.offsets[s] < 0) continue;
      layout.offsets[s] += areas[device_of(message)].BeginOf(message.window);
    }
  }
  return layout;
}

}  // namespace

int64_t DigestOffset(const Slice& slice) { return PartBytes(slice.bytes * 8); }

int64_t TransitLayout::all_bytes() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

TransitLayout LayOutTransit(const MoveList& list) {
  return LayOut(list, [&](const Slice& slice) {
    return list.messages.MessageOf(slice).whole ? planner::MessageBytes(BytesWithDigests(slice))
                                                : 0;
  });
}

TransitLayout LayOutPacked(const MoveList& list, bool gathers, int64_t run_bytes) {
  return LayOut(list, [&](const Slice& slice) {
    const bool packed = !list.messages.MessageOf(slice).whole &&
                        DirectRuns(list, slice, gathers, run_bytes).empty();
    return packed ? DigestOffset(slice) : 0;
  });
}

}  // namespace remesh::worker
