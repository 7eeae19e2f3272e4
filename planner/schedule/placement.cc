// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/placement.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/schedule/halving.h"
#include "planner/values/rational.h"
#include "planner/values/resize.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// The most loads (rounds * devices) that packing keeps count of: 768 MiB.
constexpr int64_t kRoundLoadsMax = int64_t{1} << 24;
// A pair that takes more than one part in this many of a round is heavy.
constexpr int64_t kHeavyParts = 512;
// A pair in place is heavy where its part takes more than one in this many of a window.
constexpr int64_t kHeavyPartsInPlace = 16;
// A link may have more to carry in one round than in another, by one part in this many: from the
// first tolerance that is tried to the last.
constexpr int64_t kToleratedLeast = 1024;
constexpr int64_t kToleratedMost = 2;
constexpr int64_t kLinksOfDevice = 4;  // NIC and fabric, in both directions
// The most messages of a device, in per cent of those of all rounds, so that light ones find a
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
  Placer(Moves& moves, const Atoms& atoms, const Schedule& schedule, const PairList& list,
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
        ahead_(list, moves.moves, moves.segments),
        budget_(budget) {
    heavy_.reserve(list.pairs.size());
    for (const PairWork& pair : list.pairs) {
      if (budget.Spent()) return;
      heavy_.push_back(rounds > 1 && IsHeavy(pair));
    }
  }

  std::optional<PlacedMoves> Run() && {
    if (budget_.SpentNow() || !Bearable(rounds_)) return std::nullopt;
    if (rounds_ == 1 && FitOneRound()) {
      for (size_t m = 0; m < given_.size() && !budget_.Spent(); ++m) given_[m].round = 0;
      return PlacedMoves();
    }
    std::vector<Parcel> more;  // by pair: cut off others, by rounds, or in place
    const std::vector<Parcel> parcels = HeavyParcels(more);
    StableSort(
        more,
        [](const Parcel& a, const Parcel& b) {
          return std::tie(a.id, a.round) < std::tie(b.id, b.round);
        },
        budget_);
    AddParcelsInPlace(more);
    if (budget_.SpentNow()) return std::nullopt;
    StableSort(
        more, [](const Parcel& a, const Parcel& b) { return a.id < b.id; }, budget_);
    PlaceAll(parcels, more);
    for (size_t i = 0; i < list_.pairs.size() && Bearable(); ++i) {
      if (heavy_[i]) continue;
      ahead_.Ask(i);
      PlacePair(i);
    }
    if (overfull_) return std::nullopt;
    if (!Bearable()) return std::nullopt;
    return PlacedMoves{.pieces = std::move(pieces_), .rounds = std::max(1, packer_.rounds())};
  }

 private:
  bool Bearable() const { return !budget_.Spent() && Bearable(packer_.rounds()); }
  bool Bearable(int64_t rounds) const {
    return rounds * schedule_.parts <= kWindowsMax &&
           rounds * network_.device_count() <= kRoundLoadsMax;
  }

  // Whether one round takes all pairs. Looks at the moves in their order, which is a fraction of
  // the work of placing pair after pair.
  bool FitOneRound() const {
    std::vector<int64_t> sends(network_.device_count(), 0), receives = sends, bits = sends;
    for (const PairWork& pair : list_.pairs) {
      if (budget_.Spent()) return false;
      if (pair.from == pair.to) continue;
      if (++sends[pair.from] > kMessagesPerWindowMax) return false;
      if (++receives[pair.to] > kMessagesPerWindowMax) return false;
    }
    for (const Move& move : given_) {
      if (budget_.Spent()) return false;
      const int64_t part_bits = PartBitsOf(move);
      if ((bits[move.from_device] += part_bits) > bits_max_) return false;
      if (move.from_device == move.to_device) continue;
      if ((bits[move.to_device] += part_bits) > bits_max_) return false;
    }
    return true;
  }

  // A pair in place uses no link, but has its bits in flight.
  bool IsHeavy(const PairWork& pair) const {
    if (pair.from == pair.to) return PartBitsOf(MovesOf(pair)) > bits_max_ / kHeavyPartsInPlace;
    return TakesOf(pair) > Shares::kWhole / rounds_ / kHeavyParts;
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

  // The heavy pairs across links, each with its round, and in `more` what was cut off them.
  std::vector<Parcel> HeavyParcels(std::vector<Parcel>& more) const {
    std::vector<Parcel> parcels;
    if (rounds_ == 1) return parcels;
    const std::vector<int64_t> room = RoomsOfHeavy();
    const int64_t first = MayFitDevices() ? kToleratedLeast : kToleratedMost;
    for (int64_t part = first; part >= kToleratedMost; part = part * 2 / 3) {
      SetHeavy(parcels);
      if (parcels.empty() || budget_.SpentNow()) break;
      std::vector<int64_t> tolerance;
      for (int32_t link = 0; link < shares_.links().count(); ++link) {
        tolerance.push_back(shares_.BitsOf(link) / rounds_ / part);
      }
      more = DealOut(parcels, room, tolerance, static_cast<int32_t>(rounds_), budget_);
      if (budget_.SpentNow() || FitDevices(parcels, more)) break;
    }
    return parcels;
  }

  // Makes each heavy pair across links a parcel. There may be millions, so the vector is reused.
  void SetHeavy(std::vector<Parcel>& parcels) const {
    if (parcels.capacity() == 0) Reserve(parcels, std::count(heavy_.begin(), heavy_.end(), true));
    parcels.clear();
    for (size_t i = 0; i < list_.pairs.size() && !budget_.Spent(); ++i) {
      const PairWork& pair = list_.pairs[i];
      if (!heavy_[i] || pair.from == pair.to) continue;
      parcels.push_back({.id = static_cast<int32_t>(i),
                         .from = shares_.links().Sender(pair.from, pair.to),
                         .to = shares_.links().Receiver(pair.from, pair.to),
                         .bits = pair.bits});
    }
  }

  // Heavy pairs in place, each in equal parts over rounds.
  void AddParcelsInPlace(std::vector<Parcel>& parcels) const {
    for (size_t i = 0; i < list_.pairs.size() && !budget_.Spent(); ++i) {
      const PairWork& pair = list_.pairs[i];
      if (!heavy_[i] || pair.from != pair.to) continue;
      const int64_t most = PartBitsOf(MovesOf(pair)) / (bits_max_ / kHeavyPartsInPlace) + 1;
      const int64_t count = std::min({rounds_, most, pair.bits});
      for (int64_t k = 0; k < count; ++k) {
        const int64_t round = (pair.from + k * rounds_ / count) % rounds_;
        parcels.push_back({.id = static_cast<int32_t>(i),
                           .round = static_cast<int32_t>(round),
                           .bits = MulDiv(pair.bits, k + 1, count) - MulDiv(pair.bits, k, count)});
      }
    }
  }

  // What of that light pairs leave to heavy ones.
  std::vector<int64_t> RoomsOfHeavy() const {
    std::vector<int64_t> room = Rooms();
    for (size_t i = 0; i < list_.pairs.size() && !budget_.Spent(); ++i) {
      const PairWork& pair = list_.pairs[i];
      if (heavy_[i] || pair.from == pair.to) continue;
      room[shares_.links().Sender(pair.from, pair.to)] -= pair.bits;
      room[shares_.links().Receiver(pair.from, pair.to)] -= pair.bits;
    }
    return room;
  }

  // What each link may carry over all rounds: no more than the busiest link has time for, nor so
  // much that a device had too many bits in flight in a round, since all its links add up.
  std::vector<int64_t> Rooms() const {
    const Links& links = shares_.links();
    std::vector<int64_t> of_device(network_.device_count(), 0);
    std::vector<int64_t> of_link(links.count(), 0);
    for (const PairWork& pair : list_.pairs) {
      of_device[pair.from] += pair.bits;
      if (pair.from == pair.to) continue;
      of_device[pair.to] += pair.bits;
      of_link[links.Sender(pair.from, pair.to)] += pair.bits;
      of_link[links.Receiver(pair.from, pair.to)] += pair.bits;
    }
    const int64_t most = *std::max_element(of_device.begin(), of_device.end());
    const int64_t most_in_flight = most + most / 100 * kMoreInFlight;
    std::vector<int64_t> rooms(links.count());
    for (int32_t link = 0; link < links.count(); ++link) {
      rooms[link] = shares_.BitsOf(link);
      const int32_t device = DeviceOf(links.all()[link]);
      if (device < 0) continue;
      const int64_t spare = (most_in_flight - of_device[device]) / kLinksOfDevice;
      rooms[link] = std::min(rooms[link], of_link[link] + spare);
    }
    return rooms;
  }

  // The device that alone uses the link, or -1.
  int32_t DeviceOf(const Link& link) const {
    if (link.kind == Link::Kind::kFabric) return link.index;
    if (link.kind == Link::Kind::kDomain) return -1;
    const std::vector<int32_t>& devices = network_.nics[link.index].devices;
    return devices.size() == 1 ? devices[0] : -1;
  }

  // The most messages that a device may send, or receive, in all rounds.
  int64_t MessagesMax() const { return rounds_ * kMessagesPerWindowMax / 100 * kFilledMax; }

  // Whether devices would not have too many messages in all if no pair were cut.
  bool MayFitDevices() const {
    // A device's sends, then its receives.
    std::vector<int64_t> in_all(2 * network_.device_count(), 0);
    for (const PairWork& pair : list_.pairs) {
      if (pair.from == pair.to) continue;
      ++in_all[2 * pair.from];
      ++in_all[2 * pair.to + 1];
    }
    return *std::max_element(in_all.begin(), in_all.end()) <= MessagesMax();
  }

  // Whether no device sends or receives too many parcels in a round, nor too many messages in all.
  // The result must not be used once the budget is spent.
  bool FitDevices(const std::vector<Parcel>& parcels, const std::vector<Parcel>& more) const {
    // A device's sends, then its receives.
    std::vector<int32_t> in_round(2 * network_.device_count() * rounds_, 0);
    std::vector<int64_t> in_all(2 * network_.device_count(), 0);
    for (size_t i = 0; i < list_.pairs.size() && !budget_.Spent(); ++i) {
      const PairWork& pair = list_.pairs[i];
      if (heavy_[i] || pair.from == pair.to) continue;
      ++in_all[2 * pair.from];
      ++in_all[2 * pair.to + 1];
    }
    int32_t most = 0;
    for (const std::vector<Parcel>* some : {&parcels, &more}) {
      for (const Parcel& parcel : *some) {
        if (budget_.Spent()) return false;
        const PairWork& pair = list_.pairs[parcel.id];
        for (const int64_t end : {2 * int64_t{pair.from}, 2 * int64_t{pair.to} + 1}) {
          ++in_all[end];
          most = std::max(most, ++in_round[end * rounds_ + parcel.round]);
        }
      }
    }
    return most <= kMessagesPerWindowMax &&
           *std::max_element(in_all.begin(), in_all.end()) <= MessagesMax();
  }

  // Places the parcels of all heavy pairs, pair by pair. Both lists are by pair.
  void PlaceAll(const std::vector<Parcel>& parcels, const std::vector<Parcel>& more) {
    std::vector<Parcel> of_pair;
    auto next = parcels.begin();
    auto next_more = more.begin();
    while ((next != parcels.end() || next_more != more.end()) && Bearable()) {
      of_pair.clear();
      const bool is_whole =
          next_more == more.end() || (next != parcels.end() && next->id <= next_more->id);
      const int32_t id = is_whole ? next->id : next_more->id;
      ahead_.Ask(id);
      if (is_whole) of_pair.push_back(*next++);
      if (is_whole && (next_more == more.end() || next_more->id != id)) {
        PlaceWhole(of_pair[0]);
        continue;
      }
      for (; next_more != more.end() && next_more->id == id; ++next_more) {
        of_pair.push_back(*next_more);
      }
      PlaceParcels(of_pair);
    }
  }

  // Places a pair across links that is not cut.
  void PlaceWhole(const Parcel& parcel) {
    const PairWork& pair = list_.pairs[parcel.id];
    const int64_t part_bits = PartBitsOf(MovesOf(pair));
    if (part_bits > bits_max_) return PlacePair(parcel.id);
    const int32_t round = packer_.PlaceIn(parcel.round, pair.from, pair.to,
                                          LoadOf(pair, part_bits, parcel.bits), rounds_, {});
    for (const int32_t m : MovesOf(pair)) given_[m].round = round;
  }

  void PlacePair(size_t i) {
    const PairWork& pair = list_.pairs[i];
    const int64_t part_bits = PartBitsOf(MovesOf(pair));
    if (part_bits <= bits_max_) {
      const int32_t round =
          packer_.Place(pair.from, pair.to, LoadOf(pair, part_bits, pair.bits), rounds_);
      for (const int32_t m : MovesOf(pair)) given_[m].round = round;
      return;
    }
    for (const int32_t m : MovesOf(pair)) {  // each move finds a round of its own
      if (!Bearable()) return;
      const Move& move = given_[m];
      // In one round there are parts enough for any move.
      if (rounds_ > 1 && PartBitsOf(move) > bits_max_) overfull_ = true;
      const auto load = LoadOf(pair, PartBitsOf(move), move.hi - move.lo);
      given_[m].round = packer_.Place(pair.from, pair.to, load, rounds_);
    }
  }

  // A range of a move that belongs to one parcel of its pair.
  struct Slice {
    int32_t move = 0;
    size_t parcel = 0;
    int64_t bits = 0;
  };

  // Deals the moves of one pair out to its parcels, one after another.
  std::vector<Slice> SlicesOf(absl::Span<const Parcel> parcels) const {
    std::vector<Slice> slices;
    size_t parcel = 0;
    int64_t left = parcels[0].bits;  // bits left of the parcel
    for (const int32_t m : MovesOf(list_.pairs[parcels[0].id])) {
      if (budget_.Spent()) return slices;
      Move rest = given_[m];
      for (; parcel + 1 < parcels.size(); left += parcels[++parcel].bits) {
        const int64_t bits = CutAt(rest, left);
        if (bits == rest.hi - rest.lo) break;
        if (bits == 0) continue;
        slices.push_back({m, parcel, bits});
        rest.lo += bits;
        left -= bits;
      }
      slices.push_back({m, parcel, rest.hi - rest.lo});
      left -= rest.hi - rest.lo;
    }
    return slices;
  }

  // The most bits that a part of each parcel can take.
  std::vector<int64_t> PartBitsOf(absl::Span<const Slice> slices, size_t parcels) const {
    std::vector<int64_t> part_bits(parcels, 0);
    for (const Slice& slice : slices) {
      Move move = given_[slice.move];
      move.hi = move.lo + slice.bits;
      part_bits[slice.parcel] += PartBitsOf(move);
    }
    return part_bits;
  }

  // Places all parcels of one pair and cuts its moves where they end.
  void PlaceParcels(absl::Span<const Parcel> parcels) {
    const PairWork& pair = list_.pairs[parcels[0].id];
    const std::vector<Slice> slices = SlicesOf(parcels);
    const std::vector<int64_t> part_bits = PartBitsOf(slices, parcels.size());
    if (*std::max_element(part_bits.begin(), part_bits.end()) > bits_max_) {
      return PlacePair(parcels[0].id);
    }
    std::vector<int32_t> rounds;
    for (size_t i = 0; i < parcels.size(); ++i) {
      if (!Bearable()) return;
      const auto load = LoadOf(pair, part_bits[i], parcels[i].bits);
      rounds.push_back(
          packer_.PlaceIn(parcels[i].round, pair.from, pair.to, load, rounds_, rounds));
    }
    int64_t lo = 0;
    for (size_t i = 0; i < slices.size(); lo += slices[i++].bits) {
      const int32_t m = slices[i].move;
      const int32_t round = rounds[slices[i].parcel];
      if (i == 0 || m != slices[i - 1].move) {
        lo = given_[m].lo;
        given_[m].round = round;
      } else {
        pieces_.push_back({.move = m, .pair = parcels[0].id, .round = round, .lo = lo});
      }
    }
  }

  // `bits`, rounded to whole elements of the move.
  int64_t CutAt(const Move& move, int64_t bits) const {
    const int64_t unit = atoms_.tapes[segments_[move.segment].tape].unit_bits;
    return std::clamp<int64_t>((bits + unit / 2) / unit * unit, 0, move.hi - move.lo);
  }

  const Atoms& atoms_;
  std::vector<Move>& given_;
  const std::vector<Segment>& segments_;
  const Schedule& schedule_;
  const PairList& list_;
  const Shares& shares_;
  const int64_t rounds_;
  const int64_t bits_max_;
  const Network& network_;
  RoundPacker packer_;
  const PairsAhead ahead_;
  Budget& budget_;
  std::vector<MovePiece> pieces_;  // cut off the given moves
  std::vector<bool> heavy_;        // by pair
  bool overfull_ = false;          // whether a part of a move is too large for a window
};

}  // namespace

std::optional<PlacedMoves> PlaceMoves(Moves& moves, const Atoms& atoms, const Schedule& schedule,
                                      const PairList& list, const Shares& shares, int64_t rounds,
                                      int64_t bits_max, Budget& budget) {
  return Placer(moves, atoms, schedule, list, shares, rounds, bits_max, budget).Run();
}

}  // namespace remesh::planner
