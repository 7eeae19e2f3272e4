// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/halving.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/values/rational.h"

namespace remesh::planner {
namespace {

// Parcels (among them the idle time of links), of which some bits go to the first half of the
// rounds. Cut parcels form a forest whose nodes are links. It is kept as parents: the parcel that
// leads to the parent, -1 at a root. Idle time leads from its link to the extra node `nobody`,
// which may take any amount and is always a root.
class Halves {
 public:
  Halves(const std::vector<Parcel>& parcels, int32_t nobody, Budget& budget)
      : parcels_(parcels),
        budget_(budget),
        first_(parcels.size()),
        nobody_(nobody),
        nodes_(nobody + 1) {}

  // Gives the first half num / den of every parcel, except where this leaves cycles of cut parcels.
  void Split(int64_t num, int64_t den) {
    for (size_t i = 0; i < parcels_.size(); ++i) {
      if (budget_.Spent()) return;
      first_[i] = MulDiv(parcels_[i].bits, num, den);
      while (IsCut(i) && !Link(static_cast<int32_t>(i))) {
      }
    }
  }

  bool IsCut(size_t i) const { return first_[i] > 0 && first_[i] < parcels_[i].bits; }
  int64_t& first(size_t i) { return first_[i]; }

 private:
  struct Node {
    int32_t up = -1;     // the parcel that leads to the parent, -1 at a root
    int32_t above = -1;  // the parent
    int64_t seen = -1;   // the last visit that came by
  };
  int32_t Above(int32_t link) const { return nodes_[link].above; }
  bool IsRoot(int32_t link) const { return nodes_[link].up < 0; }
  bool IsSeen(int32_t link) const { return nodes_[link].seen == visit_; }

  // Adds parcel i to the forest. If it closes a cycle, pushes bits round the cycle instead, so that
  // fewer parcels are cut, and returns false.
  bool Link(int32_t i) {
    const int32_t from = parcels_[i].from;
    const int32_t to = parcels_[i].to;
    int32_t root = from;
    ++visit_;
    for (nodes_[from].seen = visit_; !IsRoot(root); nodes_[root].seen = visit_) root = Above(root);
    int32_t meet = to;
    while (!IsSeen(meet) && !IsRoot(meet)) meet = Above(meet);
    if (IsSeen(meet)) {
      Push(i, meet);
      return false;
    }
    if (root == nobody_) {
      Hang(to, i, from);
    } else {
      Hang(from, i, to);
    }
    return true;
  }

  // Re-roots the tree of `link` at `link`, and makes parcel i the edge to its parent `above`.
  void Hang(int32_t link, int32_t i, int32_t above) {
    while (i >= 0) {
      const Node next = nodes_[link];
      nodes_[link].up = i;
      nodes_[link].above = above;
      i = next.up;
      above = link;
      link = next.above;
    }
  }

  // Pushes bits round the cycle of parcel i and the paths from its ends up to `meet`. Parcels of
  // the cycle alternately gain and lose until one of them is whole; prefers to make a real parcel
  // whole, not idle time.
  void Push(int32_t i, int32_t meet) {
    cycle_ = {{i, true}};
    for (const int32_t end : {parcels_[i].from, parcels_[i].to}) {
      bool gains = false;
      for (int32_t link = end; link != meet; link = Above(link), gains = !gains) {
        cycle_.emplace_back(nodes_[link].up, gains);
      }
    }
    const auto [forth, forth_real] = MostPushed(true);
    const auto [back, back_real] = MostPushed(false);
    const bool forwards = forth_real == back_real ? forth <= back : forth_real;
    const int64_t pushed = forwards ? forth : -back;
    for (const auto& [p, gains] : cycle_) first_[p] += gains ? pushed : -pushed;
    for (const int32_t end : {parcels_[i].from, parcels_[i].to}) {
      for (int32_t link = end; link != meet;) {
        const int32_t above = Above(link);
        if (!IsCut(nodes_[link].up)) nodes_[link].up = -1;
        link = above;
      }
    }
  }

  // The most bits that can be pushed round the cycle, and whether they make a real parcel whole.
  std::pair<int64_t, bool> MostPushed(bool forwards) const {
    int64_t most = std::numeric_limits<int64_t>::max();
    bool real = false;
    for (const auto& [p, gains] : cycle_) {
      const int64_t room = gains == forwards ? parcels_[p].bits - first_[p] : first_[p];
      if (room > most) continue;
      const bool is_real = parcels_[p].to != nobody_;
      real = room < most ? is_real : real || is_real;
      most = room;
    }
    return {most, real};
  }

  const std::vector<Parcel>& parcels_;
  Budget& budget_;
  std::vector<int64_t> first_;
  const int32_t nobody_;
  std::vector<Node> nodes_;  // by link
  int64_t visit_ = 0;
  std::vector<std::pair<int32_t, bool>> cycle_;  // parcel, whether it gains
};

class Dealer {
 public:
  Dealer(const std::vector<int64_t>& room, const std::vector<int64_t>& tolerance, int32_t rounds,
         Budget& budget)
      : room_(room),
        tolerance_(tolerance),
        budget_(budget),
        all_rounds_(rounds),
        lo_(room.size()),
        hi_(room.size()),
        first_of_(room.size()) {}

  void Deal(std::vector<Parcel> parcels, int32_t begin, int32_t rounds,
            std::vector<Parcel>& dealt) {
    if (parcels.empty() || budget_.SpentNow()) return;
    if (rounds == 1) {
      for (Parcel& parcel : parcels) {
        parcel.round = begin;
        dealt.push_back(parcel);
      }
      return;
    }
    const int32_t half = rounds / 2;
    std::vector<Parcel> sides[2];
    Halve(std::move(parcels), half, rounds, sides);
    Deal(std::move(sides[0]), begin, half, dealt);
    Deal(std::move(sides[1]), begin + half, rounds - half, dealt);
  }

 private:
  void Halve(std::vector<Parcel> parcels, int64_t half, int64_t rounds,
             std::vector<Parcel> (&sides)[2]) {
    Measure(parcels, half, rounds);
    if (budget_.SpentNow()) return;
    std::vector<Parcel> all = Idle(parcels);
    const size_t idle = all.size();
    all.insert(all.end(), parcels.begin(), parcels.end());
    Halves halves(all, static_cast<int32_t>(room_.size()), budget_);
    halves.Split(half, rounds);
    if (budget_.SpentNow()) return;
    for (const Parcel& parcel : parcels) first_of_[parcel.from] = first_of_[parcel.to] = 0;
    for (size_t i = idle; i < all.size(); ++i) Count(all[i], halves.first(i));
    for (size_t i = idle; i < all.size(); ++i) {
      if (budget_.Spent()) return;
      if (halves.IsCut(i)) MakeWhole(all[i], halves.first(i));
      for (const int side : {0, 1}) {
        Parcel part = all[i];
        part.bits = side == 0 ? halves.first(i) : part.bits - halves.first(i);
        if (part.bits > 0) sides[side].push_back(part);
      }
    }
  }

  // Computes, for each link, the least that the first half must carry and the most that it may
  // carry.
  void Measure(const std::vector<Parcel>& parcels, int64_t half, int64_t rounds) {
    for (const Parcel& parcel : parcels) {
      for (const int32_t link : {parcel.from, parcel.to}) {
        lo_[link] = -MulDiv(room_[link], rounds - half, all_rounds_);
        hi_[link] = MulDiv(room_[link], half, all_rounds_);
      }
    }
    for (const Parcel& parcel : parcels) {
      lo_[parcel.from] += parcel.bits;
      lo_[parcel.to] += parcel.bits;
    }
  }

  // Idle time of each link, as parcels.
  std::vector<Parcel> Idle(const std::vector<Parcel>& parcels) {
    std::vector<Parcel> idle;
    for (const Parcel& parcel : parcels) {
      for (const int32_t link : {parcel.from, parcel.to}) first_of_[link] = 0;
    }
    const int32_t nobody = static_cast<int32_t>(room_.size());
    for (const Parcel& parcel : parcels) {
      for (const int32_t link : {parcel.from, parcel.to}) {
        if (first_of_[link]++ == 0 && hi_[link] > lo_[link]) {
          idle.push_back({.from = link, .to = nobody, .bits = hi_[link] - lo_[link]});
        }
      }
    }
    return idle;
  }

  void Count(const Parcel& parcel, int64_t bits) {
    first_of_[parcel.from] += bits;
    first_of_[parcel.to] += bits;
  }

  // Puts a cut parcel whole into one half if no link then has too much in either half.
  void MakeWhole(const Parcel& parcel, int64_t& first) {
    const int64_t rest = parcel.bits - first;
    const bool out = first <= rest;  // the smaller part moves
    for (const int64_t moved : {out ? -first : rest, out ? rest : -first}) {
      if (!Bears(parcel.from, moved) || !Bears(parcel.to, moved)) continue;
      first += moved;
      Count(parcel, moved);
      return;
    }
  }

  // Whether the first half may take `moved` more bits of the link.
  bool Bears(int32_t link, int64_t moved) const {
    const int64_t lo = std::min(lo_[link], hi_[link]) - tolerance_[link];
    const int64_t hi = std::max(lo_[link], hi_[link]) + tolerance_[link];
    const int64_t then = first_of_[link] + moved;
    return lo <= then && then <= hi;
  }

  const std::vector<int64_t>& room_;
  const std::vector<int64_t>& tolerance_;
  Budget& budget_;
  const int32_t all_rounds_;
  std::vector<int64_t> lo_;  // of the current links: least and most that the first half may carry
  std::vector<int64_t> hi_;
  std::vector<int64_t> first_of_;  // what the first half carries
};

}  // namespace

std::vector<Parcel> DealOut(std::vector<Parcel> parcels, const std::vector<int64_t>& room,
                            const std::vector<int64_t>& tolerance, int32_t rounds, Budget& budget) {
  std::vector<Parcel> dealt;
  Dealer(room, tolerance, rounds, budget).Deal(std::move(parcels), 0, rounds, dealt);
  return dealt;
}

}  // namespace remesh::planner
