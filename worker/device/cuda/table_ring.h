// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "worker/device/work_table.h"

namespace remesh::worker {

// The place of a table: the same bytes in pinned memory and on the GPU. The results come back from
// the GPU to pinned memory.
struct TablePlace {
  std::byte* pinned = nullptr;
  std::byte* on_gpu = nullptr;
  size_t bytes = 0;
  uint64_t ticket = 0;  // the ring's number for the place
};

// Memory for the tables of the work in flight. It is allocated once, because an allocation waits
// for the work that the GPU is doing. Places are taken in turn and become free in that order.
class TableRing {
 public:
  // Enough for any chunk: a chunk of 131,072 pieces of one bit, on both sides, takes 32 MiB.
  static constexpr size_t kBytes = size_t{40} << 20;

  TableRing() = default;
  ~TableRing();
  TableRing(const TableRing&) = delete;
  TableRing& operator=(const TableRing&) = delete;

  // REQUIRES: the GPU is the calling thread's current device.
  cudaError_t Open();

  // Takes a place of `bytes` bytes; a place without memory if there is no room. REQUIRES: bytes <=
  // kBytes.
  TablePlace Take(size_t bytes);
  void GiveBack(const TablePlace& place);

 private:
  struct Taken {
    uint64_t ticket;
    size_t begin, end;
    bool free = false;
  };

  std::byte* pinned_ = nullptr;
  std::byte* on_gpu_ = nullptr;
  uint64_t tickets_ = 0;
  std::deque<Taken> taken_;  // in order around the ring
};

// Offsets of a table's arrays in its place: first the results, then the input.
struct TableLayout {
  explicit TableLayout(const WorkTable& table);

  size_t found_bytes() const { return parts; }  // first_wrong and the digests, from 0 on
  kernels::TableView View(std::byte* base) const;
  void Write(const WorkTable& table, std::byte* base) const;

  size_t digests, parts;
  int32_t part_count;
  size_t pieces, bytes;
};

}  // namespace remesh::worker
