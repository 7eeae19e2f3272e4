// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/transit.h"

#include <numeric>
#include <tuple>
#include <utility>

#include "planner/values/packing.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

// The bytes of a move between hosts that are on their way at either end.
struct Load {
  Interval cycles;  // from its first part to its last
  int64_t parts = 0;
  int64_t bytes = 0;  // the most bytes of any part
};

// A move at one of its ends. There may be many millions, so what the move knows is not kept again.
struct End {
  uint32_t move : 31;
  uint32_t receives : 1;
};

// Measures the bytes that one device has on their way, round by round.
class Meter {
 public:
  explicit Meter(int64_t rounds) : rounds_(rounds) {}

  // Adds `bytes` bytes in these cycles. Most calls have the same cycles as the one before.
  void Add(Interval cycles, int64_t bytes) {
    if (cycles != last_) AddLast();
    last_ = cycles;
    last_bytes_ += bytes;
  }

  // Ends `round`: it consists of what was added since the previous one.
  void EndRound(int32_t round) {
    AddLast();
    if (all_.size() <= kDense * std::ssize(changes_)) {
      FitEachCycle(round);
    } else {
      FitEachChange(round);
    }
    changes_.clear();
    all_ = Interval();
  }

  // Returns the bytes of the area for all rounds, and begins the next device.
  int64_t EndDevice() { return std::exchange(area_, TransitArea()).bytes(); }

 private:
  // With up to this many cycles per change, walking over cycles is faster than sorting the changes.
  static constexpr int64_t kDense = 8;

  void FitEachCycle(int32_t round) {
    by_cycle_.assign(all_.size() + 1, 0);
    for (const auto& [cycle, more] : changes_) by_cycle_[cycle - all_.lo] += more;
    int64_t bytes = 0;
    for (int64_t cycle = all_.lo; cycle < all_.hi; ++cycle) {
      area_.Fit(cycle * rounds_ + round, bytes += by_cycle_[cycle - all_.lo]);
    }
  }

  // Between two changes all cycles are alike, and two windows suffice: later ones use the same
  // halves.
  void FitEachChange(int32_t round) {
    std::sort(changes_.begin(), changes_.end());
    int64_t bytes = 0;
    for (size_t i = 0; i + 1 < changes_.size(); ++i) {
      bytes += changes_[i].second;
      const int64_t cycles = changes_[i + 1].first - changes_[i].first;
      const int64_t window = changes_[i].first * rounds_ + round;
      if (cycles > 0) area_.Fit(window, bytes);
      if (cycles > 1) area_.Fit(window + rounds_, bytes);
    }
  }

  void AddLast() {
    if (last_bytes_ == 0) return;
    all_ = changes_.empty() ? last_
                            : Interval{std::min(all_.lo, last_.lo), std::max(all_.hi, last_.hi)};
    changes_.emplace_back(last_.lo, last_bytes_);
    changes_.emplace_back(last_.hi, -last_bytes_);
    last_bytes_ = 0;
  }

  const int64_t rounds_;
  Interval last_;
  int64_t last_bytes_ = 0;
  std::vector<std::pair<int64_t, int64_t>> changes_;  // cycle, bytes more
  Interval all_;                                      // cycles of `changes_`
  std::vector<int64_t> by_cycle_;                     // bytes added in each cycle of all_
  TransitArea area_;
};

class TransitMeasure {
 public:
  TransitMeasure(const MovedSegments& moved, absl::Span<const Move> moves,
                 absl::Span<const int32_t> host_of, int64_t steps_max, Budget& budget)
      : moved_(moved),
        moves_(moves),
        begin_(host_of.size() + 1, 0),
        meter_(moved.schedule.rounds),
        messages_(2 * host_of.size()) {
    const auto travels = [&](const Move& move) {
      return host_of[move.from_device] != host_of[move.to_device] && move.lo != move.hi;
    };
    for (const Move& move : moves) {
      if (budget.Spent()) return;
      if (!travels(move)) continue;
      ++begin_[move.from_device + 1];
      ++begin_[move.to_device + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    Resize(ends_, begin_.back(), budget);
    if (budget.SpentNow()) return;
    std::vector<int32_t> next = begin_;
    for (size_t m = 0; m < moves.size() && !budget.Spent(); ++m) {
      if (!travels(moves[m])) continue;
      const auto number = static_cast<uint32_t>(m);
      ends_[next[moves[m].from_device]++] = {.move = number, .receives = 0};
      ends_[next[moves[m].to_device]++] = {.move = number, .receives = 1};
    }
    parts_max_ = steps_max / std::max<int64_t>(1, std::ssize(ends_));
  }

  std::vector<int64_t> Run(int64_t device_count, Budget& budget) {
    std::vector<int64_t> bytes(device_count, 0);
    if (moved_.schedule.windows() == 1) {
      AddOneWindow(bytes, budget);
      return bytes;
    }
    for (int64_t device = 0; device < device_count; ++device) {
      for (int32_t i = begin_[device]; i < begin_[device + 1]; ++i) {
        if (budget.Spent()) return bytes;
        Prefetch(i);
        const int32_t round = moves_[ends_[i].move].round;
        AddEnd(ends_[i]);
        const bool last = i + 1 == begin_[device + 1];
        if (!last && moves_[ends_[i + 1].move].round == round) continue;
        AddPadding();
        meter_.EndRound(round);
      }
      bytes[device] = meter_.EndDevice();
    }
    return bytes;
  }

 private:
  // A message that is padded up to its alignment. Stretches and digests take multiples of
  // kDigestBytes.
  static constexpr int64_t kPadding = kMessageAlignment - kDigestBytes;

  // In a plan of one window all that a device has on its way is there at once.
  void AddOneWindow(std::vector<int64_t>& bytes, Budget& budget) {
    std::vector<int32_t> begun_by(messages_.size(), -1);  // the last device with this message
    for (size_t device = 0; device < bytes.size(); ++device) {
      for (int32_t i = begin_[device]; i < begin_[device + 1]; ++i) {
        if (budget.Spent()) return;
        Prefetch(i);
        const Move& move = moves_[ends_[i].move];
        bytes[device] += PartsAndBytesOf(move).second;
        int32_t& begun = begun_by[MessageOf(ends_[i], move)];
        if (begun == static_cast<int32_t>(device)) continue;
        begun = static_cast<int32_t>(device);
        bytes[device] += kPadding;
      }
    }
  }

  // The peer's number and the direction: equal for what travels together.
  static int32_t MessageOf(const End& end, const Move& move) {
    return end.receives ? 2 * move.from_device + 1 : 2 * move.to_device;
  }

  // Asks for what the ends after this one read. The moves of a device lie far apart, so that each
  // would wait for memory.
  void Prefetch(int32_t i) const {
    constexpr int32_t kAhead = 16;
    const auto count = static_cast<int32_t>(ends_.size());
    const auto move = [&](int32_t ahead) -> const Move& { return moves_[ends_[i + ahead].move]; };
    if (i + 3 * kAhead < count) {
      const char* const bytes = reinterpret_cast<const char*>(&move(3 * kAhead));
      __builtin_prefetch(bytes);
      __builtin_prefetch(bytes + sizeof(Move) - 1);
    }
    if (i + 2 * kAhead < count) __builtin_prefetch(&moved_.segments[move(2 * kAhead).segment]);
    if (i + kAhead >= count) return;
    __builtin_prefetch(&moved_.unit_bits[moved_.segments[move(kAhead).segment].tape]);
  }

  Load LoadOf(const Move& move) {
    Load load;
    std::tie(load.parts, load.bytes) = PartsAndBytesOf(move);
    load.cycles = {move.hop, move.hop + load.parts};
    if (load.parts < moved_.schedule.parts) {
      const SegmentParts parts = moved_.PartsOf(move.segment);
      load.cycles = {move.hop + parts.TurnOf(0), move.hop + parts.TurnOf(load.parts - 1) + 1};
    }
    return load;
  }

  // The number of parts of the move, and the most bytes of any part. Most moves are of whole
  // segments, and most segments have the size of the one before: those results are reused.
  std::pair<int64_t, int64_t> PartsAndBytesOf(const Move& move) {
    const Segment& segment = moved_.segments[move.segment];
    const absl::Span<const int64_t> cuts = moved_.CutsOf(move.segment);
    const std::pair<int64_t, int32_t> size = {segment.size(), moved_.unit_bits[segment.tape]};
    if (cuts.empty() && size == last_size_) return last_whole_;
    std::pair<int64_t, int64_t> result = {moved_.schedule.PartsOf(segment.size()), 0};
    ForEachPiece(cuts, {move.lo, move.hi}, [&](Interval piece) {
      result.second += TravellingBytes(moved_.PartBitsMax(move.segment, piece));
    });
    if (cuts.empty()) std::tie(last_size_, last_whole_) = std::tie(size, result);
    return result;
  }

  void AddEnd(const End& end) {
    const Move& move = moves_[end.move];
    const Load load = LoadOf(move);
    const int32_t number = MessageOf(end, move);
    Interval& message = messages_[number];
    if (message.size() == 0) {
      begun_.push_back(number);
      message = load.cycles;
    }
    message = {std::min(message.lo, load.cycles.lo), std::max(message.hi, load.cycles.hi)};
    if (load.cycles.size() == load.parts || load.parts > parts_max_) {
      return meter_.Add(load.cycles, load.bytes);
    }
    const SegmentParts parts = moved_.PartsOf(move.segment);
    for (int64_t part = 0; part < load.parts; ++part) {
      const int64_t cycle = parts.TurnOf(part) + move.hop;
      meter_.Add({cycle, cycle + 1}, load.bytes);
    }
  }

  // Adds the padding of the round's messages.
  void AddPadding() {
    for (const int32_t message : begun_) {
      meter_.Add(std::exchange(messages_[message], Interval()), kPadding);
    }
    begun_.clear();
  }

  const MovedSegments& moved_;
  const absl::Span<const Move> moves_;
  std::vector<int32_t> begin_;              // the ends of device d: [begin_[d], begin_[d + 1])
  std::vector<End> ends_;                   // by device, then round
  std::pair<int64_t, int32_t> last_size_;   // size and unit of the last segment without cuts
  std::pair<int64_t, int64_t> last_whole_;  // its parts and the most bytes of each
  int64_t parts_max_ = 0;                   // segments with more parts are not walked part by part
  Meter meter_;
  std::vector<Interval> messages_;  // of the current round: the cycles of each
  std::vector<int32_t> begun_;      // indices of messages_ in use
};

}  // namespace

std::vector<int64_t> TransitBytes(const MovedSegments& moved, absl::Span<const Move> moves,
                                  absl::Span<const int32_t> host_of, int64_t steps_max,
                                  Budget& budget) {
  TransitMeasure measure(moved, moves, host_of, steps_max, budget);
  return measure.Run(std::ssize(host_of), budget);
}

}  // namespace remesh::planner
