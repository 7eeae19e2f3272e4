// SPDX-License-Identifier: Apache-2.0
#include "worker/device/cuda/table_ring.h"

#include <cstring>

#include "base/check.h"

namespace remesh::worker {
namespace {

constexpr size_t kTableAlignment = 256;

size_t Aligned(size_t bytes) {
  return (bytes + kTableAlignment - 1) / kTableAlignment * kTableAlignment;
}

template <typename T>
void Append(const std::vector<T>& values, std::byte* at) {
  if (!values.empty()) std::memcpy(at, values.data(), values.size() * sizeof(T));
}

}  // namespace

TableRing::~TableRing() {
  cudaFreeHost(pinned_);
  cudaFree(on_gpu_);
}

cudaError_t TableRing::Open() {
  void* memory = nullptr;
  cudaError_t error = cudaHostAlloc(&memory, kBytes, cudaHostAllocPortable);
  if (error != cudaSuccess) return error;
  pinned_ = static_cast<std::byte*>(memory);
  error = cudaMalloc(&memory, kBytes);
  if (error == cudaSuccess) on_gpu_ = static_cast<std::byte*>(memory);
  return error;
}

TablePlace TableRing::Take(size_t bytes) {
  bytes = Aligned(bytes);
  REMESH_CHECK(bytes <= kBytes);
  size_t begin = taken_.empty() ? 0 : taken_.back().end;
  if (!taken_.empty()) {
    const size_t oldest = taken_.front().begin;
    const bool wrapped = begin <= oldest;  // the taken places wrap around the end
    if (!wrapped && kBytes - begin < bytes) begin = 0;
    if (begin <= oldest && oldest - begin < bytes) return {};
  }
  taken_.push_back({++tickets_, begin, begin + bytes});
  return {pinned_ + begin, on_gpu_ + begin, bytes, tickets_};
}

void TableRing::GiveBack(const TablePlace& place) {
  taken_[place.ticket - taken_.front().ticket].free = true;
  while (!taken_.empty() && taken_.front().free) taken_.pop_front();
}

TableLayout::TableLayout(const WorkTable& table)
    : digests(sizeof(int64_t)),
      parts(Aligned(digests + table.digests.size() * sizeof(uint64_t))),
      part_count(static_cast<int32_t>(table.parts.size())),
      pieces(Aligned(parts + table.parts.size() * sizeof(kernels::PartEntry))),
      bytes(pieces + table.pieces.size() * sizeof(kernels::PieceEntry)) {}

kernels::TableView TableLayout::View(std::byte* base) const {
  return {reinterpret_cast<const kernels::PieceEntry*>(base + pieces),
          reinterpret_cast<const kernels::PartEntry*>(base + parts), part_count,
          reinterpret_cast<uint64_t*>(base + digests), reinterpret_cast<int64_t*>(base)};
}

void TableLayout::Write(const WorkTable& table, std::byte* base) const {
  std::memcpy(base, &table.first_wrong, sizeof(table.first_wrong));
  Append(table.digests, base + digests);
  Append(table.parts, base + parts);
  Append(table.pieces, base + pieces);
}

}  // namespace remesh::worker
