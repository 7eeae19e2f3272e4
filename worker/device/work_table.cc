// SPDX-License-Identifier: Apache-2.0
#include "worker/device/work_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/device/chunks.h"

namespace remesh::worker {
namespace {

using kernels::DigestUse;
using kernels::kLoopsMax;
using kernels::PartEntry;
using kernels::PieceEntry;

static_assert(kernels::kChunkBits == kChunkBits);

// The entry of a piece without the piece's `outer` outermost loops.
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

// Appends the piece's entries that intersect [lo, hi). A piece has more than one entry only if it
// has more loops than an entry can hold.
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

// A range of adjacent pieces of a table.
struct Pieces {
  int32_t first = -1;
  int32_t count = 0;
};

Pieces Since(size_t first, const std::vector<PieceEntry>& entries) {
  return {static_cast<int32_t>(first), static_cast<int32_t>(entries.size() - first)};
}

Pieces AppendView(const TapeView& view, int64_t lo, int64_t hi, std::vector<PieceEntry>& entries) {
  const size_t first = entries.size();
  const TapePiece* const end = view.pieces().data() + view.pieces().size();
  for (const TapePiece* piece = &view.PieceAt(lo); piece != end && piece->begin < hi; ++piece) {
    AppendPiece(*piece, lo, hi, entries);
  }
  return Since(first, entries);
}

Pieces AppendPacked(std::byte* data, int64_t lo, int64_t hi, std::vector<PieceEntry>& entries) {
  const size_t first = entries.size();
  const TapePiece packed{lo, hi, data, {.run_bits = hi - lo, .loops = {}}};
  AppendPiece(packed, lo, hi, entries);
  return Since(first, entries);
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

Pieces AppendTarget(WorkKind kind, const SlicePart& part, std::byte* buffer, int64_t target_hi,
                    std::vector<PieceEntry>& pieces) {
  if (kind == WorkKind::kPack && buffer != nullptr)
    return AppendPacked(buffer + part.offset, part.lo, target_hi, pieces);
  if (kind == WorkKind::kUnpack || kind == WorkKind::kCopy)
    return AppendView(*part.target, part.lo, part.hi, pieces);
  return {};
}

void AppendPart(WorkKind kind, const SlicePart& part, std::byte* buffer, WorkTable& table) {
  PartEntry entry{.first_chunk = table.chunks(),
                  .lo = part.lo,
                  .hi = part.hi,
                  .target_hi = part.hi,
                  .use = UseOf(kind, part)};
  if (kind == WorkKind::kPack) entry.target_hi = part.lo + PartBytes(part.hi - part.lo) * 8;
  const Pieces source = part.source != nullptr
                            ? AppendView(*part.source, part.lo, part.hi, table.pieces)
                            : AppendPacked(buffer + part.offset, part.lo, part.hi, table.pieces);
  const Pieces target = AppendTarget(kind, part, buffer, entry.target_hi, table.pieces);
  entry.source = source.first;
  entry.source_count = source.count;
  entry.target = target.first;
  entry.target_count = target.count;
  table.parts.push_back(entry);
  const int64_t chunks = ChunksOf(part.lo, part.hi);
  if (entry.use == DigestUse::kCompare) {
    table.digests.insert(table.digests.end(), part.digests, part.digests + chunks);
  } else {
    table.digests.resize(table.digests.size() + static_cast<size_t>(chunks));
  }
}

}  // namespace

WorkTable MakeWorkTable(WorkKind kind, const std::vector<SlicePart>& parts, std::byte* buffer) {
  WorkTable table;
  int64_t chunks = 0;
  for (const SlicePart& part : parts) chunks += ChunksOf(part.lo, part.hi);
  table.digests.reserve(static_cast<size_t>(chunks));
  table.parts.reserve(parts.size());
  for (const SlicePart& part : parts) {
    if (part.lo != part.hi) AppendPart(kind, part, buffer, table);
  }
  return table;
}

Mismatch FinishWork(const std::vector<SlicePart>& parts, const WorkTable& table,
                    const uint64_t* digests, int64_t first_wrong) {
  Mismatch mismatch;
  auto entry = table.parts.begin();
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t count = ChunksOf(parts[i].lo, parts[i].hi);
    if (count == 0) continue;
    const int64_t first = entry->first_chunk;
    if (first_wrong >= first && first_wrong < first + count) {
      mismatch = {static_cast<int>(i), first_wrong - first};
    }
    if (entry->use == DigestUse::kWrite) {
      std::copy_n(digests + first, count, parts[i].digests);
    }
    ++entry;
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

}  // namespace remesh::worker
