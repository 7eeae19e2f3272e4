// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "worker/device/device.h"
#include "worker/device/kernels/table.h"

namespace remesh::worker {

enum class WorkKind { kPack, kUnpack, kCopy, kCheck };

// One call of a Device as flat tables, which kernels/run_chunk.h processes in any order. Building
// them takes work for each part and piece, not for each chunk. A value; it points to the same
// memory as the parts' views.
struct WorkTable {
  std::vector<kernels::PieceEntry> pieces;
  std::vector<kernels::PartEntry> parts;  // without those that have no chunk
  std::vector<uint64_t> digests;          // of each chunk; filled in where compared
  int64_t first_wrong = std::numeric_limits<int64_t>::max();

  // For devices that read the table in place.
  kernels::TableView View() {
    return {pieces.data(), parts.data(), static_cast<int32_t>(parts.size()), digests.data(),
            &first_wrong};
  }
  int64_t chunks() const { return static_cast<int64_t>(digests.size()); }
};

WorkTable MakeWorkTable(WorkKind kind, const std::vector<SlicePart>& parts, std::byte* buffer);

// Writes the new digests to the parts and returns the first wrong chunk. REQUIRES: `digests` and
// `first_wrong` are the results for the fields of `table`, which was made from `parts`.
Mismatch FinishWork(const std::vector<SlicePart>& parts, const WorkTable& table,
                    const uint64_t* digests, int64_t first_wrong);

// Splits work in two, for devices whose tables are limited in size: halves of the parts, or of the
// chunks of a single part. REQUIRES: more than one part, or more than one chunk.
class WorkHalves {
 public:
  explicit WorkHalves(std::vector<SlicePart> parts);

  std::vector<SlicePart>& first() { return first_; }
  std::vector<SlicePart>& second() { return second_; }
  // The mismatch of the whole, given the mismatches of the halves.
  Mismatch Whole(const Mismatch& first, const Mismatch& second) const;

 private:
  std::vector<SlicePart> first_, second_;
  int second_part_ = 0;  // part of the whole with which the second half begins
  int64_t second_chunk_ = 0;
};

}  // namespace remesh::worker
