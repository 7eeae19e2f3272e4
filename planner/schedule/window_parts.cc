// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/window_parts.h"

#include <algorithm>

#include "base/int_math.h"
#include "planner/schedule/placement.h"
#include "planner/values/rational.h"

namespace remesh::planner {
namespace {

// Limits on parts that are made only to fill the pipeline of relays sooner: the most parts, and the
// least size of a part of the busiest device.
constexpr int64_t kPipelinePartsMax = 4096;
constexpr int64_t kPipelinePartBitsMin = int64_t{8} << 20;
// With several rounds messages come to about this size where there are bytes enough for that.
constexpr int64_t kMessageBits = int64_t{256} << 20;  // 32 MiB
// The same without relays, which alone would ask for parts, and where so few pairs are soon dealt
// out to more rounds.
constexpr int64_t kLargerMessageBits = int64_t{512} << 20;  // 64 MiB
constexpr size_t kPairsForLarger = size_t{1} << 15;

}  // namespace

Busiest FindBusiest(const Network& network, const std::vector<Move>& moves, Budget& budget) {
  std::vector<Busiest> devices(network.device_count());
  Busiest busiest;
  const auto add = [&](int32_t device, int64_t bits) {
    busiest.bits = std::max(busiest.bits, devices[device].bits += bits);
    busiest.moves = std::max(busiest.moves, ++devices[device].moves);
  };
  for (const Move& move : moves) {
    if (budget.Spent()) break;
    add(move.from_device, move.hi - move.lo);
    if (move.from_device != move.to_device) add(move.to_device, move.hi - move.lo);
  }
  return busiest;
}

int64_t WindowParts::PartsFor(int64_t rounds) const {
  return std::max(CeilDiv(CeilDiv(busiest_.bits, rounds), RoomFor(rounds)), limits_.parts_min);
}

int64_t WindowParts::RoundsFor(int64_t parts) const { return CeilDiv(PartsFor(1), parts); }

// The bits that a window has room for on the busiest device, on average. The rest of it is for
// what rounding adds to parts, of which those of small segments are the least size of a part, and
// for rounds that have more in flight than others. Short plans with relays fill half of it, since
// they need parts more than they need few messages.
int64_t WindowParts::RoomFor(int64_t rounds) const {
  if (schedule_.hops > 1 && limits_.is_short) return limits_.window_bits / 2;
  const int64_t of_move = schedule_.min_part_bits + 2 * schedule_.slack_bits + kRoundingBits;
  const int64_t room = limits_.window_bits - CeilDiv(busiest_.moves, rounds) * of_move;
  const int64_t spare = rounds == 1 ? 0 : kMoreInFlight;
  return std::max(limits_.window_bits / 2, room / (100 + spare) * 100);
}

int64_t WindowParts::MostParts(int64_t least, const Schedule& schedule) const {
  if (schedule.hops == 1 && least == 1) return 1;
  return std::max(
      least, std::min(kPipelinePartsMax, busiest_.bits / schedule.rounds / kPipelinePartBitsMin));
}

int64_t WindowParts::RoundsForLargeMessages(const std::vector<PairWork>& pairs,
                                            const HeavyPairs& heavy, const Network& network) const {
  const std::vector<int32_t>& host_of = network.host_of;
  int64_t bits = 0, crossing = 0, crossing_bits = 0;
  for (const PairWork& pair : pairs) {
    if (pair.from == pair.to) continue;
    bits += pair.bits;
    if (host_of[pair.from] == host_of[pair.to]) continue;
    ++crossing;
    crossing_bits += pair.bits;
  }
  const int64_t windows = std::max(PartsFor(1), PartsFor(2) * 2);
  const bool larger = schedule_.hops == 1 && pairs.size() <= kPairsForLarger;
  const int64_t of_message = larger ? kLargerMessageBits : kMessageBits;
  const auto rounds = [&](int64_t count, int64_t of_pairs) {
    return MulDiv(count, windows, std::max<int64_t>(1, of_pairs / of_message));
  };
  return std::min({heavy.most_of_device, CeilDiv(PartsFor(1), limits_.parts_min),
                   std::max(rounds(heavy.count, bits), rounds(crossing, crossing_bits))});
}

}  // namespace remesh::planner
