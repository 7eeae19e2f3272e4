// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/transit.h"

#include <algorithm>
#include <array>

#include "base/int_math.h"
#include "worker/device/chunks.h"

namespace remesh::worker {
namespace {

// GPUs and NCCL like their memory aligned.
constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes, int64_t alignment) { return CeilDiv(bytes, alignment) * alignment; }

}  // namespace

int64_t DigestOffset(const Slice& slice) { return PartBytes(slice.bytes * 8); }

TransitLayout LayOutTransit(const MoveList& list) {
  const MessageList& messages = list.messages;
  int local_count = 0;
  for (const int local : list.local_device) local_count = std::max(local_count, local + 1);
  TransitLayout layout;
  layout.offsets.resize(messages.slices().size(), 0);
  std::vector<std::array<int64_t, 2>> halves(local_count, {0, 0});
  const auto device_of = [&](const Message& message) {
    return list.local_device[message.outgoing ? message.from : message.to];
  };
  for (int32_t window = 0; window < list.program.windows(); ++window) {
    std::vector<int64_t> used(local_count, 0);
    for (const int index : messages.InOrder(window)) {
      const Slice& slice = messages.slices()[index];
      const Message& message = messages.MessageOf(slice);
      if (message.peer < 0) continue;
      int64_t& at = used[device_of(message)];
      layout.offsets[index] = at;
      at = Aligned(at + BytesWithDigests(slice), kAlignment);
    }
    for (int d = 0; d < local_count; ++d)
      halves[d][window % 2] = std::max(halves[d][window % 2], used[d]);
  }
  for (const auto& [even, odd] : halves) layout.bytes.push_back(even + odd);
  for (const Message& message : messages.messages()) {
    if (message.peer < 0 || message.window % 2 == 0) continue;
    for (int s = message.first_slice; s < message.first_slice + message.slice_count; ++s)
      layout.offsets[s] += halves[device_of(message)][0];
  }
  return layout;
}

}  // namespace remesh::worker
