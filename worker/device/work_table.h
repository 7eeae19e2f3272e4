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

// One call of a Device as flat tables, which take work for each part and piece, not for each chunk, and
// which kernels/run_chunk.h works off in any order. A value; it
// points where the parts' views do.
struct WorkTable {
  std::vector<kernels::PieceEntry> pieces;
  std::vector<kernels::PartEntry> parts;  // but those without a chunk
  std::vector<uint64_t> digests;          // of each chunk; those to compare with are there
  int64_t first_wrong = std::numeric_limits<int64_t>::max();

  // For devices that read the table where it stands.
  kernels::TableView View() {
    return {pieces.data(), parts.data(), static_cast<int32_t>(parts.size()), digests.data(),
            &first_wrong};
  }
  int64_t chunks() const { return static_cast<int64_t>(digests.size()); }
};

WorkTable MakeWorkTable(WorkKind kind, const std::vector<SlicePart>& parts, std::byte* buffer);

// Hands the digests that were written to the parts, and names the first wrong chunk. REQUIRES:
// `digests` and `first_wrong` are what became of those of `table`, which was made from `parts`.
Mismatch FinishWork(const std::vector<SlicePart>& parts, const WorkTable& table,
                    const uint64_t* digests, int64_t first_wrong);

// Work in two, for devices whose tables have an end: halves of the parts, or of the one part's chunks.
// REQUIRES: more than one part, or more than one chunk.
class WorkHalves {
 public:
  explicit WorkHalves(std::vector<SlicePart> parts);

  std::vector<SlicePart>& first() { return first_; }
  std::vector<SlicePart>& second() { return second_; }
  // What the whole found, of what each half did.
  Mismatch Whole(const Mismatch& first, const Mismatch& second) const;

 private:
  std::vector<SlicePart> first_, second_;
  int second_part_ = 0;  // of the whole, with which the second half begins
  int64_t second_chunk_ = 0;
};

}  // namespace remesh::worker
