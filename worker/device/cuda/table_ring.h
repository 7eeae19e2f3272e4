// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "worker/device/work_table.h"

namespace remesh::worker {

// A table on its way to a GPU: the same bytes in pinned memory and on the GPU, from where what it
// found comes back.
struct TablePlace {
  std::byte* pinned = nullptr;
  std::byte* on_gpu = nullptr;
  size_t bytes = 0;
  uint64_t ticket = 0;  // of the ring
};

// Room for the tables of the work in flight, taken once: memory cannot be had while a GPU works
// without waiting for it. Places are taken in turn and become free in that order.
class TableRing {
 public:
  // Any chunk fits: one of 131,072 pieces of one bit, on both sides, takes 32 MiB.
  static constexpr size_t kBytes = size_t{40} << 20;

  TableRing() = default;
  ~TableRing();
  TableRing(const TableRing&) = delete;
  TableRing& operator=(const TableRing&) = delete;

  // REQUIRES: the GPU is the thread's.
  cudaError_t Open();

  // A place of so many bytes; one without memory while there is no room. REQUIRES: bytes <= kBytes.
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
  std::deque<Taken> taken_;  // in turn around the ring
};

// Where the parts of a table stand in its place: what is found, first; then what it is made of.
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
