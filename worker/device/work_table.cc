// SPDX-License-Identifier: Apache-2.0
#include "worker/device/work_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/device/chunks.h"

namespace remesh {
namespace {

using kernels::ChunkEntry;
using kernels::DigestUse;
using kernels::kLoopsMax;
using kernels::PieceEntry;

// A piece without its `outer` loops.
PieceEntry InnerEntry(const TapePiece& piece, size_t outer) {
  PieceEntry entry{.data = reinterpret_cast<unsigned char*>(piece.data),
                   .run_bits = piece.runs.run_bits};
  std::fill_n(entry.loops, kLoopsMax, PieceEntry::Loop{1, 0});
  int inner = 0;
  for (size_t d = piece.runs.loops.size(); d-- > outer;) {
    entry.loops[inner++] = {piece.runs.loops[d].count, piece.runs.loops[d].stride};
  }
  return entry;
}

// Those of the piece's entries that [lo, hi) goes through: more than one only where it has more loops
// than an entry.
void AppendPiece(const TapePiece& piece, int64_t lo, int64_t hi, std::vector<PieceEntry>& entries) {
  const size_t loops = piece.runs.loops.size();
  const size_t outer = loops > kLoopsMax ? loops - kLoopsMax : 0;
  PieceEntry entry = InnerEntry(piece, outer);
  int64_t bits = entry.run_bits;
  for (const PieceEntry::Loop& loop : entry.loops) bits *= loop.count;
  entry.end = piece.begin;
  ForEachStart(piece.runs, outer, [&](int64_t bit) {
    entry.first_bit = bit;
    entry.begin = entry.end;
    entry.end += bits;
    if (entry.begin < hi && entry.end > lo) entries.push_back(entry);
  });
}

// Both return where the range's first piece stands.
int32_t AppendView(const TapeView& view, int64_t lo, int64_t hi, std::vector<PieceEntry>& entries) {
  const size_t first = entries.size();
  const TapePiece* const end = view.pieces().data() + view.pieces().size();
  for (const TapePiece* piece = &view.PieceAt(lo); piece != end && piece->begin < hi; ++piece) {
    AppendPiece(*piece, lo, hi, entries);
  }
  return static_cast<int32_t>(first);
}

int32_t AppendPacked(std::byte* data, int64_t lo, int64_t hi, std::vector<PieceEntry>& entries) {
  const TapePiece packed{lo, hi, data, {.run_bits = hi - lo, .loops = {}}};
  AppendPiece(packed, lo, hi, entries);
  return static_cast<int32_t>(entries.size()) - 1;
}

DigestUse UseOf(WorkKind kind, const SlicePart& part) {
  if (part.digests == nullptr) return DigestUse::kNone;
  switch (kind) {
    case WorkKind::kPack:
      return part.carried ? DigestUse::kNone : DigestUse::kWrite;
    case WorkKind::kCopy:
      return part.carried ? DigestUse::kCompare : DigestUse::kWrite;
    default:
      return DigestUse::kCompare;
  }
}

void AppendChunks(const SlicePart& part, ChunkEntry chunk, bool packed_target, WorkTable& table) {
  for (int64_t k = 0, lo = part.lo; lo < part.hi; ++k, lo += kChunkBits) {
    chunk.lo = lo;
    chunk.hi = std::min(lo + kChunkBits, part.hi);
    chunk.target_hi = packed_target ? lo + PartBytes(chunk.hi - lo) * 8 : chunk.hi;
    while (table.pieces[chunk.source].end <= lo) ++chunk.source;
    while (chunk.target >= 0 && table.pieces[chunk.target].end <= lo) ++chunk.target;
    table.chunks.push_back(chunk);
    table.digests.push_back(chunk.use == DigestUse::kCompare ? part.digests[k] : 0);
  }
}

}  // namespace

WorkTable MakeWorkTable(WorkKind kind, const std::vector<SlicePart>& parts, std::byte* buffer) {
  WorkTable table;
  int64_t chunks = 0;
  for (const SlicePart& part : parts) chunks += ChunksOf(part.lo, part.hi);
  table.chunks.reserve(static_cast<size_t>(chunks));
  table.digests.reserve(static_cast<size_t>(chunks));
  for (const SlicePart& part : parts) {
    if (part.lo == part.hi) continue;
    ChunkEntry chunk{.target = -1, .use = UseOf(kind, part)};
    chunk.source = part.source != nullptr
                       ? AppendView(*part.source, part.lo, part.hi, table.pieces)
                       : AppendPacked(buffer + part.offset, part.lo, part.hi, table.pieces);
    const bool packed = kind == WorkKind::kPack && buffer != nullptr;
    if (packed) {
      chunk.target = AppendPacked(buffer + part.offset, part.lo,
                                  part.lo + PartBytes(part.hi - part.lo) * 8, table.pieces);
    } else if (kind == WorkKind::kUnpack || kind == WorkKind::kCopy) {
      chunk.target = AppendView(*part.target, part.lo, part.hi, table.pieces);
    }
    AppendChunks(part, chunk, packed, table);
  }
  return table;
}

Mismatch FinishWork(const std::vector<SlicePart>& parts, const WorkTable& table,
                    const uint64_t* digests, int64_t first_wrong) {
  Mismatch mismatch;
  int64_t first = 0;  // chunk of the part at hand
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t count = ChunksOf(parts[i].lo, parts[i].hi);
    if (first_wrong >= first && first_wrong < first + count) {
      mismatch = {static_cast<int>(i), first_wrong - first};
    }
    if (count > 0 && table.chunks[first].use == DigestUse::kWrite) {
      std::copy_n(digests + first, count, parts[i].digests);
    }
    first += count;
  }
  return mismatch;
}

WorkHalves::WorkHalves(std::vector<SlicePart> parts) : first_(std::move(parts)) {
  second_part_ = static_cast<int>(first_.size() / 2);
  if (first_.size() > 1) {
    second_.assign(first_.begin() + second_part_, first_.end());
    first_.resize(static_cast<size_t>(second_part_));
    return;
  }
  second_part_ = 0;
  second_ = first_;
  second_chunk_ = ChunksOf(first_[0].lo, first_[0].hi) / 2;
  first_[0].hi = second_[0].lo = first_[0].lo + second_chunk_ * kChunkBits;
  second_[0].offset += second_chunk_ * kChunkBytes;
  if (second_[0].digests != nullptr) second_[0].digests += second_chunk_;
}

Mismatch WorkHalves::Whole(const Mismatch& first, const Mismatch& second) const {
  if (!first.ok() || second.ok()) return first;
  return {second.part + second_part_, second.chunk + second_chunk_};
}

}  // namespace remesh
