// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/slice_places.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/device/chunks.h"

namespace remesh::worker {
namespace {

// The slots for the slices that `layout` has a place for.
SlotShape SlotsFor(const MoveList& list, const TransitLayout& layout, const StreamLimits& limits) {
  int64_t slot_bytes = 0;
  for (size_t i = 0; i < layout.offsets.size(); ++i) {
    if (layout.offsets[i] >= 0)
      slot_bytes = std::max(slot_bytes, DigestOffset(list.messages.slices()[i]));
  }
  if (slot_bytes == 0) return {};
  const int64_t fit = std::max<int64_t>(limits.staging_bytes / slot_bytes, 1);
  return {static_cast<int>(std::min<int64_t>(fit, limits.slices_in_flight)), slot_bytes};
}

}  // namespace

int64_t SlicePlaces::HostBytesFor(const MoveList& list, const StreamLimits& limits, bool gathers) {
  const TransitLayout layout = LayOutPacked(list, gathers, limits.run_bytes);
  return std::min(layout.all_bytes(), SlotsFor(list, layout, limits).bytes());
}

SlicePlaces::SlicePlaces(const MoveList* list, const StreamLimits& limits, bool gathers)
    : list_(list),
      transit_(LayOutTransit(*list)),
      packed_(LayOutPacked(*list, gathers, limits.run_bytes)),
      slots_(SlotsFor(*list, packed_, limits)),
      own_places_(packed_.all_bytes() <= slots_.bytes()),
      pool_(own_places_ ? SlotShape() : slots_, HostBytes()),
      slot_of_(own_places_ ? 0 : list->messages.slices().size(), -1) {}

std::span<std::byte> SlicePlaces::HostBytes() const {
  return list_->slots == nullptr ? std::span<std::byte>() : list_->slots->bytes();
}

std::optional<SlicePlace> SlicePlaces::Take(int index) {
  const Slice& slice = list_->messages.slices()[index];
  const Message& message = list_->messages.MessageOf(slice);
  const int local = list_->local_device[message.outgoing ? message.from : message.to];
  if (message.whole) {
    std::byte* const at = list_->transit[local].get() + transit_.offsets[index];
    return SlicePlace{{at, static_cast<size_t>(BytesWithDigests(slice))}, at};
  }
  REMESH_CHECK(packed_.offsets[index] >= 0);
  std::span<std::byte> bytes;
  if (own_places_) {
    int64_t at = packed_.offsets[index];
    for (int d = 0; d < local; ++d) at += packed_.bytes[d];
    bytes = HostBytes().subspan(static_cast<size_t>(at), static_cast<size_t>(slice.bytes));
  } else {
    if (!pool_.has_free()) return std::nullopt;
    slot_of_[index] = pool_.Take();
    bytes = pool_.bytes(slot_of_[index], slice.bytes);
  }
  return SlicePlace{bytes, list_->slots_on[local].get() + (bytes.data() - HostBytes().data())};
}

void SlicePlaces::Give(int slice) {
  if (own_places_ || slot_of_[slice] < 0) return;
  pool_.Give(std::exchange(slot_of_[slice], -1));
}

}  // namespace remesh::worker
