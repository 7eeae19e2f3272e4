// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/placement.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/schedule/halving.h"
#include "planner/values/rational.h"
#include "planner/values/resize.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// The most that rounding adds to a part of a move: its part and its two cuts, each to an element of
// at most 128 bits.
constexpr int64_t kRoundingBits = 3 * 128;
// The most loads (rounds * devices) that packing keeps count of: 640 MiB.
constexpr int64_t kRoundLoadsMax = int64_t{1} << 24;
// A pair that takes more than one part in this many of a round is heavy.
constexpr int64_t kHeavyParts = 8;
// A link may have more to carry in one round than in another, by one part in this many: from the
// first tolerance that is tried to the last.
constexpr int64_t kToleratedLeast = 64;
constexpr int64_t kToleratedMost = 2;
// The most pairs of a host, in per cent of the pairs of all rounds, so that light ones find a
// place.
constexpr int64_t kFilledMax = 97;

// The most bits that one part of the move can take.
int64_t PartBits(const Schedule& schedule, const Segment& segment, const Move& move) {
  const int64_t size = move.hi - move.lo;
  return std::min(size, size / schedule.PartsOf(segment.size())) + kRoundingBits +
         2 * schedule.slack_bits;
}

class Placer {
 public:
  Placer(const Moves& moves, const Atoms& atoms, const Schedule& schedule, const PairList& list,
         const Shares& shares, int64_t rounds, int64_t bits_max, Budget& budget)
      : atoms_(atoms),
        given_(moves.moves),
        segments_(moves.segments),
        schedule_(schedule),
        list_(list),
        shares_(shares),
        rounds_(rounds),
        bits_max_(bits_max),
        network_(shares.links().network()),
        packer_(shares.links(), bits_max, kMessagesPerWindowMax, budget),
        budget_(budget) {
    part_bits_.reserve(list.pairs.size());
    for (const PairWork& pair : list.pairs) {
      if (budget.Spent()) return;
      part_bits_.push_back(PartBitsOf(MovesOf(pair)));
      heavy_.push_back(rounds > 1 && TakesOf(pair) > Shares::kWhole / rounds / kHeavyParts);
    }
  }

  std::optional<PlacedMoves> Run() && {
    if (budget_.SpentNow() || !Bearable(rounds_)) return std::nullopt;
    const std::vector<Parcel> parcels = HeavyParcels();
    CopyMoves(parcels.size());
    for (size_t begin = 0, end = 0; begin < parcels.size() && Bearable(); begin = end) {
      while (end < parcels.size() && parcels[end].id == parcels[begin].id) ++end;
      PlaceParcels(absl::MakeConstSpan(parcels).subspan(begin, end - begin));
    }
    for (size_t i = 0; i < list_.pairs.size() && Bearable(); ++i) {
      if (!heavy_[i]) PlacePair(i);
    }
    if (!Bearable()) return std::nullopt;
    return PlacedMoves{std::move(moves_), std::max(1, packer_.rounds())};
  }

 private:
  bool Bearable() const { return !budget_.Spent() && Bearable(packer_.rounds()); }
  bool Bearable(int64_t rounds) const {
    return rounds * schedule_.parts <= kWindowsMax &&
           rounds * network_.device_count() <= kRoundLoadsMax;
  }

  absl::Span<const int32_t> MovesOf(const PairWork& pair) const {
    return absl::MakeConstSpan(list_.order).subspan(pair.first, pair.count);
  }

  int64_t PartBitsOf(const Move& move) const {
    return PartBits(schedule_, segments_[move.segment], move);
  }

  int64_t PartBitsOf(absl::Span<const int32_t> moves) const {
    int64_t together = 0;
    for (int32_t m : moves) together += PartBitsOf(given_[m]);
    return together;
  }

  // Copies the moves, with room for those that will be cut off them (at most one for each parcel),
  // so that they are never all copied at once later.
  void CopyMoves(size_t parcels) {
    Reserve(moves_, given_.size() + parcels);
    Append(moves_, given_, budget_);
  }

  int64_t TakesOf(const PairWork& pair) const {
    return std::max(shares_.OfSender(pair.from, pair.to, pair.bits),
                    shares_.OfReceiver(pair.from, pair.to, pair.bits));
  }

  RoundPacker::Load LoadOf(const PairWork& pair, int64_t part_bits, int64_t bits) const {
    if (rounds_ == 1) return {.bits = part_bits};  // there is only one choice
    return {.bits = part_bits,
            .out = shares_.OfSender(pair.from, pair.to, bits),
            .in = shares_.OfReceiver(pair.from, pair.to, bits)};
  }

  // The heavy pairs in parts, each with its round, pair by pair.
  std::vector<Parcel> HeavyParcels() const {
    std::vector<Parcel> heavy;
    std::vector<int64_t> room;  // room that light pairs leave
    for (int32_t link = 0; link < shares_.links().count(); ++link)
      room.push_back(shares_.BitsOf(link));
    for (size_t i = 0; i < list_.pairs.size() && !budget_.Spent(); ++i) {
      const PairWork& pair = list_.pairs[i];
      if (pair.from == pair.to) continue;
      const int32_t from = shares_.links().Sender(pair.from, pair.to);
      const int32_t to = shares_.links().Receiver(pair.from, pair.to);
      if (heavy_[i]) {
        heavy.push_back({.id = static_cast<int32_t>(i), .from = from, .to = to, .bits = pair.bits});
      } else {
        room[from] -= pair.bits;
        room[to] -= pair.bits;
      }
    }
    if (heavy.empty()) return heavy;
    std::vector<Parcel> parcels;
    for (int64_t part = kToleratedLeast; part >= kToleratedMost; part = part * 2 / 3) {
      std::vector<int64_t> tolerance;
      for (int32_t link = 0; link < shares_.links().count(); ++link) {
        tolerance.push_back(shares_.BitsOf(link) / rounds_ / part);
      }
      parcels = DealOut(heavy, room, tolerance, static_cast<int32_t>(rounds_), budget_);
      if (budget_.SpentNow() || FitHosts(parcels)) break;
    }
    if (budget_.SpentNow()) return parcels;
    StableSort(
        parcels, [](const Parcel& a, const Parcel& b) { return a.id < b.id; }, budget_);
    return parcels;
  }

  // Whether no host has too many parcels in a round, nor too many pairs in all. The result must not
  // be used once the budget is spent.
  bool FitHosts(const std::vector<Parcel>& parcels) const {
    std::vector<int64_t> in_round(network_.hosts.size() * rounds_, 0);
    std::vector<int64_t> in_all(network_.hosts.size(), 0);
    const auto count = [&](const PairWork& pair, int64_t round) {
      const int32_t hosts[] = {network_.host_of[pair.from], network_.host_of[pair.to]};
      for (const int32_t host : absl::MakeConstSpan(hosts, hosts[0] == hosts[1] ? 1 : 2)) {
        ++in_all[host];
        if (round >= 0) ++in_round[host * rounds_ + round];
      }
    };
    for (size_t i = 0; i < list_.pairs.size() && !budget_.Spent(); ++i) {
      const PairWork& pair = list_.pairs[i];
      if (!heavy_[i] && pair.from != pair.to) count(pair, -1);
    }
    for (const Parcel& parcel : parcels) {
      if (budget_.Spent()) return false;
      count(list_.pairs[parcel.id], parcel.round);
    }
    const int64_t most = rounds_ * kMessagesPerWindowMax / 100 * kFilledMax;
    return *std::max_element(in_round.begin(), in_round.end()) <= kMessagesPerWindowMax &&
           *std::max_element(in_all.begin(), in_all.end()) <= most;
  }

  void PlacePair(size_t i) {
    const PairWork& pair = list_.pairs[i];
    if (part_bits_[i] <= bits_max_) {
      const int32_t round =
          packer_.Place(pair.from, pair.to, LoadOf(pair, part_bits_[i], pair.bits), rounds_);
      for (const int32_t m : MovesOf(pair)) moves_[m].round = round;
      return;
    }
    for (const int32_t m : MovesOf(pair)) {  // each move finds a round of its own
      if (!Bearable()) return;
      Move& move = moves_[m];
      const auto load = LoadOf(pair, PartBitsOf(move), move.hi - move.lo);
      move.round = packer_.Place(pair.from, pair.to, load, rounds_);
    }
  }

  int64_t PartBitsOf(const Parcel& parcel) const {
    return MulDiv(part_bits_[parcel.id], parcel.bits, list_.pairs[parcel.id].bits) + kRoundingBits +
           2 * schedule_.slack_bits;
  }

  int32_t RoundFor(const Parcel& parcel, absl::Span<const int32_t> taken) {
    const PairWork& pair = list_.pairs[parcel.id];
    return packer_.PlaceIn(parcel.round, pair.from, pair.to,
                           LoadOf(pair, PartBitsOf(parcel), parcel.bits), rounds_, taken);
  }

  // Places all parts of one pair: cuts its moves, one after another, where a part ends.
  void PlaceParcels(absl::Span<const Parcel> parcels) {
    for (const Parcel& parcel : parcels) {
      if (PartBitsOf(parcel) > bits_max_) return PlacePair(parcel.id);
    }
    std::vector<int32_t> rounds;
    for (const Parcel& parcel : parcels) {
      if (!Bearable()) return;
      rounds.push_back(RoundFor(parcel, rounds));
    }
    size_t part = 0;
    int64_t left = parcels[0].bits;  // bits left of the part
    for (int32_t m : MovesOf(list_.pairs[parcels[0].id])) {
      if (budget_.Spent()) return;
      for (; part + 1 < parcels.size(); left += parcels[++part].bits) {
        const int64_t bits = CutAt(moves_[m], left);
        if (bits == SizeOf(m)) break;
        if (bits == 0) continue;
        const int32_t rest = CutOff(m, bits);
        moves_[m].round = rounds[part];
        left -= bits;
        m = rest;
      }
      moves_[m].round = rounds[part];
      left -= SizeOf(m);
    }
  }

  int64_t SizeOf(int32_t m) const { return moves_[m].hi - moves_[m].lo; }

  // `bits`, rounded to whole elements of the move.
  int64_t CutAt(const Move& move, int64_t bits) const {
    const int64_t unit = atoms_.tapes[segments_[move.segment].tape].unit_bits;
    return std::clamp<int64_t>((bits + unit / 2) / unit * unit, 0, move.hi - move.lo);
  }

  // Cuts a move after `bits` bits, appends the rest as another move and returns the rest's index.
  int32_t CutOff(int32_t m, int64_t bits) {
    Move rest = moves_[m];
    rest.lo += bits;
    moves_[m].hi = rest.lo;
    moves_.push_back(rest);
    return static_cast<int32_t>(moves_.size()) - 1;
  }

  const Atoms& atoms_;
  const std::vector<Move>& given_;
  const std::vector<Segment>& segments_;
  const Schedule& schedule_;
  const PairList& list_;
  const Shares& shares_;
  const int64_t rounds_;
  const int64_t bits_max_;
  const Network& network_;
  RoundPacker packer_;
  Budget& budget_;
  std::vector<Move> moves_;
  std::vector<int64_t> part_bits_;  // by pair
  std::vector<bool> heavy_;
};

}  // namespace

std::optional<PlacedMoves> PlaceMoves(const Moves& moves, const Atoms& atoms,
                                      const Schedule& schedule, const PairList& list,
                                      const Shares& shares, int64_t rounds, int64_t bits_max,
                                      Budget& budget) {
  return Placer(moves, atoms, schedule, list, shares, rounds, bits_max, budget).Run();
}

}  // namespace remesh::planner
