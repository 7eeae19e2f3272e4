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
  int32_t segment = 0;
  int32_t hop = 0;
  Interval cycles;  // from its first part to its last
  int64_t parts = 0;
  int64_t bytes = 0;  // the most bytes of any part
};

struct End {
  int32_t load = 0;
  int32_t device = 0;
  int32_t message = 0;  // the peer's number and a direction; equal for what travels together
  int32_t round = 0;
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
      : moved_(moved), meter_(moved.schedule.rounds), messages_(2 * host_of.size()) {
    const auto travels = [&](const Move& move) {
      return host_of[move.from_device] != host_of[move.to_device] && move.lo != move.hi;
    };
    std::vector<int32_t> next(host_of.size() + 1, 0);  // of ends_, by device
    for (const Move& move : moves) {
      if (budget.Spent()) return;
      if (!travels(move)) continue;
      ++next[move.from_device + 1];
      ++next[move.to_device + 1];
    }
    std::partial_sum(next.begin(), next.end(), next.begin());
    Resize(ends_, next.back(), budget);
    if (budget.SpentNow()) return;
    Reserve(loads_, ends_.size() / 2);
    for (const Move& move : moves) {
      if (budget.Spent()) return;
      if (!travels(move)) continue;
      const auto load = static_cast<int32_t>(loads_.size());
      loads_.push_back(LoadOf(move));
      ends_[next[move.from_device]++] = {load, move.from_device, 2 * move.to_device, move.round};
      ends_[next[move.to_device]++] = {load, move.to_device, 2 * move.from_device + 1, move.round};
    }
    parts_max_ = steps_max / std::max<int64_t>(1, std::ssize(ends_));
  }

  std::vector<int64_t> Run(int64_t device_count, Budget& budget) {
    std::vector<int64_t> bytes(device_count, 0);
    for (size_t i = 0; i < ends_.size() && !budget.Spent(); ++i) {
      const End& end = ends_[i];
      AddEnd(end);
      const bool last = i + 1 == ends_.size();
      const End& next = ends_[last ? i : i + 1];
      const bool last_of_device = last || next.device != end.device;
      if (!last_of_device && next.round == end.round) continue;
      AddPadding();
      meter_.EndRound(end.round);
      if (last_of_device) bytes[end.device] = meter_.EndDevice();
    }
    return bytes;
  }

 private:
  Load LoadOf(const Move& move) {
    Load load{.segment = move.segment, .hop = move.hop};
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
    const Load& load = loads_[end.load];
    Interval& message = messages_[end.message];
    if (message.size() == 0) {
      begun_.push_back(end.message);
      message = load.cycles;
    }
    message = {std::min(message.lo, load.cycles.lo), std::max(message.hi, load.cycles.hi)};
    if (load.cycles.size() == load.parts || load.parts > parts_max_) {
      return meter_.Add(load.cycles, load.bytes);
    }
    const SegmentParts parts = moved_.PartsOf(load.segment);
    for (int64_t part = 0; part < load.parts; ++part) {
      const int64_t cycle = parts.TurnOf(part) + load.hop;
      meter_.Add({cycle, cycle + 1}, load.bytes);
    }
  }

  // Adds the padding of the round's messages up to their alignment. Stretches and digests take
  // multiples of kDigestBytes.
  void AddPadding() {
    for (const int32_t message : begun_) {
      meter_.Add(std::exchange(messages_[message], Interval()), kMessageAlignment - kDigestBytes);
    }
    begun_.clear();
  }

  const MovedSegments& moved_;
  std::pair<int64_t, int32_t> last_size_;   // size and unit of the last segment without cuts
  std::pair<int64_t, int64_t> last_whole_;  // its parts and the most bytes of each
  std::vector<Load> loads_;
  std::vector<End> ends_;  // by device, then round
  int64_t parts_max_ = 0;  // segments with more parts are not walked part by part
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
