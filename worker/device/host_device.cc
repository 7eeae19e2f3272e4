// SPDX-License-Identifier: Apache-2.0
#include "worker/device/host_device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/int_math.h"
#include "worker/device/chunks.h"
#include "worker/device/digest.h"
#include "worker/device/shard_view.h"
#include "worker/device/tape_cursor.h"

namespace remesh::worker {
namespace {

// One chunk on its way. Stays in the nearest cache.
alignas(64) thread_local std::array<std::byte, kChunkBytes> chunk_buffer;

std::span<const std::byte> Packed(const std::byte* data, int64_t bits) {
  return {data, static_cast<size_t>(BytesOfBits(bits))};
}

// The next `bits` bits where they lie if that can be, else packed beside; the cursor moves on.
std::span<const std::byte> Gather(TapeCursor& from, int64_t bits) {
  if (const std::byte* there = from.Contiguous(bits); there != nullptr) {
    from.Skip(bits);
    return Packed(there, bits);
  }
  Pack(from, bits, chunk_buffer.data());
  return Packed(chunk_buffer.data(), bits);
}

std::optional<TapeCursor> CursorAt(const TapeView* view, int64_t position) {
  if (view == nullptr) return std::nullopt;
  return TapeCursor(*view, position);
}

// What is done to one chunk after the other of one part. False: the bits are not the digest's.
struct PackChunk {
  std::byte* buffer;
  bool operator()(const SlicePart& part, int64_t k, int64_t bits, TapeCursor* from, TapeCursor*) {
    if (buffer == nullptr) {
      part.digests[k] = DigestPacked(Gather(*from, bits));
      return true;
    }
    std::byte* out = buffer + part.offset + k * kChunkBytes;
    worker::Pack(*from, bits, out);
    const int64_t bytes = BytesOfBits(bits);
    std::fill(out + bytes, out + PartBytes(bits), std::byte{0});
    if (!part.carried) part.digests[k] = DigestPacked(Packed(out, bits));
    return true;
  }
};

struct UnpackChunk {
  const std::byte* buffer;
  bool operator()(const SlicePart& part, int64_t k, int64_t bits, TapeCursor*, TapeCursor* to) {
    const std::byte* in = buffer + part.offset + k * kChunkBytes;
    if (DigestPacked(Packed(in, bits)) != part.digests[k]) return false;
    worker::Unpack(in, bits, *to);
    return true;
  }
};

struct CopyChunk {
  bool operator()(const SlicePart& part, int64_t k, int64_t bits, TapeCursor* from,
                  TapeCursor* to) {
    // What is hashed is what is copied, whatever a trainer writes into the source meanwhile.
    worker::Pack(*from, bits, chunk_buffer.data());
    const uint64_t digest = DigestPacked(Packed(chunk_buffer.data(), bits));
    if (part.carried && digest != part.digests[k]) return false;
    part.digests[k] = digest;
    worker::Unpack(chunk_buffer.data(), bits, *to);
    return true;
  }
};

struct CheckChunk {
  bool operator()(const SlicePart& part, int64_t k, int64_t bits, TapeCursor* from, TapeCursor*) {
    return DigestPacked(Gather(*from, bits)) == part.digests[k];
  }
};

template <typename Work>
Mismatch RunParts(const std::vector<SlicePart>& parts, Work work) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const SlicePart& part = parts[i];
    auto from = CursorAt(part.source, part.lo), to = CursorAt(part.target, part.lo);
    for (int64_t k = 0, lo = part.lo; lo < part.hi; ++k, lo += kChunkBits) {
      const int64_t bits = std::min(kChunkBits, part.hi - lo);
      if (!work(part, k, bits, from ? &*from : nullptr, to ? &*to : nullptr))
        return {static_cast<int>(i), k};
    }
  }
  return {};
}

}  // namespace

template <typename Work>
void HostDevice::Run(std::vector<SlicePart> parts, Work work, Done done) {
  auto found = std::make_unique<Mismatch>();
  Mismatch* const result = found.get();
  pool_.Run([parts = std::move(parts), work, result] { *result = RunParts(parts, work); },
            [found = std::move(found), done = std::move(done)](absl::Status status) mutable {
              if (!status.ok()) return done(status);
              done(*found);
            });
}

absl::StatusOr<std::shared_ptr<std::byte>> HostDevice::Allocate(int64_t bytes) {
  const int64_t rounded = CeilDiv(bytes, kDeviceAlignment) * static_cast<int64_t>(kDeviceAlignment);
  void* data = std::aligned_alloc(kDeviceAlignment, static_cast<size_t>(rounded));
  if (data != nullptr) return std::shared_ptr<std::byte>(static_cast<std::byte*>(data), std::free);
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("no memory for ", bytes, " bytes"),
                   {"DEVICE_MEMORY_EXHAUSTED", {{"bytes", absl::StrCat(bytes)}}});
}

void HostDevice::Pack(std::vector<SlicePart> parts, std::byte* buffer, Done done) {
  Run(std::move(parts), PackChunk{buffer}, std::move(done));
}

void HostDevice::Unpack(std::vector<SlicePart> parts, const std::byte* buffer, Done done) {
  Run(std::move(parts), UnpackChunk{buffer}, std::move(done));
}

void HostDevice::Copy(std::vector<SlicePart> parts, Done done) {
  Run(std::move(parts), CopyChunk{}, std::move(done));
}

void HostDevice::Check(std::vector<SlicePart> parts, Done done) {
  Run(std::move(parts), CheckChunk{}, std::move(done));
}

void HostDevice::Transfer(std::byte* to, const std::byte* from, int64_t bytes, Done done) {
  pool_.Run([=] { std::memcpy(to, from, static_cast<size_t>(bytes)); },
            [done = std::move(done)](absl::Status status) mutable {
              if (!status.ok()) return done(status);
              done(Mismatch());
            });
}

}  // namespace remesh::worker
