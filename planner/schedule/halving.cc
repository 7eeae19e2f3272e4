// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/halving.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "planner/values/rational.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// Parcels that are cut grow by few, so the parcels given and those cut off them are kept apart: the
// given ones never move.
class Parcels {
 public:
  explicit Parcels(std::vector<Parcel>& given) : given_(given) {}

  Parcel& operator[](int32_t i) {
    const auto beyond = i - static_cast<int64_t>(given_.size());
    return beyond < 0 ? given_[i] : cut_off_[beyond];
  }
  // Leaves `bits` bits to parcel i and returns the number of another with the rest.
  int32_t Cut(int32_t i, int64_t bits) {
    Parcel rest = (*this)[i];
    rest.bits -= bits;
    (*this)[i].bits = bits;
    cut_off_.push_back(rest);
    return static_cast<int32_t>(given_.size() + cut_off_.size()) - 1;
  }
  std::vector<Parcel> TakeCutOff() && { return std::move(cut_off_); }

 private:
  std::vector<Parcel>& given_;
  std::vector<Parcel> cut_off_;
};

// Idle time of links and some parcels, one after the other, of which some bits go to the first half
// of the rounds. Cut parcels form a forest whose nodes are links. It is kept as parents: the parcel
// that leads to the parent, -1 at a root. Idle time leads from its link to the extra node `idle_end`,
// which may take any amount and is always a root.
class Halves {
 public:
  Halves(const std::vector<Parcel>& idle, Parcels& parcels, const std::vector<int32_t>& chosen,
         int32_t idle_end, Budget& budget)
      : idle_(idle),
        parcels_(parcels),
        chosen_(chosen),
        budget_(budget),
        first_(idle.size() + chosen.size()),
        idle_end_(idle_end),
        nodes_(idle_end + 1) {}

  // Gives the first half num / den of every parcel, except where this leaves cycles of cut parcels.
  void Split(int64_t num, int64_t den) {
    for (size_t i = 0; i < first_.size(); ++i) {
      if (budget_.Spent()) return;
      first_[i] = MulDiv(At(i).bits, num, den);
      nodes_[At(i).from].sum += first_[i];
      if (At(i).to != idle_end_) nodes_[At(i).to].sum += first_[i];
      while (IsCut(i) && !Link(static_cast<int32_t>(i))) {
      }
    }
  }

  bool IsCut(size_t i) const { return first_[i] > 0 && first_[i] < At(i).bits; }
  int64_t& first(size_t i) { return first_[i]; }
  // The bits of all parcels of the link, idle time among them, that Split() gave the first half.
  int64_t FirstOf(int32_t link) const { return nodes_[link].sum; }

 private:
  const Parcel& At(size_t i) const {
    return i < idle_.size() ? idle_[i] : parcels_[chosen_[i - idle_.size()]];
  }

  struct Node {
    int32_t up = -1;     // the parcel that leads to the parent, -1 at a root
    int32_t above = -1;  // the parent
    int64_t seen = -1;   // the last visit that came by
    int64_t sum = 0;     // of a link's first_, which no push changes
    int32_t degree = 0;  // parcels of the forest that end here
  };
  int32_t Above(int32_t link) const { return nodes_[link].above; }
  bool IsRoot(int32_t link) const { return nodes_[link].up < 0; }
  bool IsSeen(int32_t link) const { return nodes_[link].seen == visit_; }

  // Adds parcel i to the forest. If it closes a cycle, pushes bits round the cycle instead, so that
  // fewer parcels are cut, and returns false.
  bool Link(int32_t i) {
    const int32_t from = At(i).from;
    const int32_t to = At(i).to;
    int32_t root = from;
    ++visit_;
    for (nodes_[from].seen = visit_; !IsRoot(root); nodes_[root].seen = visit_) root = Above(root);
    int32_t meet = to;
    while (!IsSeen(meet) && !IsRoot(meet)) meet = Above(meet);
    if (IsSeen(meet)) {
      Push(i, meet);
      return false;
    }
    CountCut(i, 1);
    if (root == idle_end_) {
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
    for (const int32_t end : {At(i).from, At(i).to}) {
      bool gains = false;
      for (int32_t link = end; link != meet; link = Above(link), gains = !gains) {
        cycle_.emplace_back(nodes_[link].up, gains);
      }
    }
    const Pushed forth = MostPushed(true);
    const Pushed back = MostPushed(false);
    const bool forwards = std::tie(forth.degree, back.most) >= std::tie(back.degree, forth.most);
    const int64_t pushed = forwards ? forth.most : -back.most;
    for (const auto& [p, gains] : cycle_) first_[p] += gains ? pushed : -pushed;
    for (const int32_t end : {At(i).from, At(i).to}) {
      for (int32_t link = end; link != meet;) {
        const int32_t above = Above(link);
        if (!IsCut(nodes_[link].up)) {
          CountCut(nodes_[link].up, -1);
          nodes_[link].up = -1;
        }
        link = above;
      }
    }
  }

  void CountCut(int32_t i, int32_t count) {
    nodes_[At(i).from].degree += count;
    nodes_[At(i).to].degree += count;
  }

  // The most bits that can be pushed round the cycle, and of the parcels that they make whole the
  // most cut parcels at one end; -1 if they make only idle time whole.
  struct Pushed {
    int64_t most = std::numeric_limits<int64_t>::max();
    int32_t degree = -1;
  };
  Pushed MostPushed(bool forwards) const {
    Pushed pushed;
    for (const auto& [p, gains] : cycle_) {
      const int64_t room = gains == forwards ? At(p).bits - first_[p] : first_[p];
      if (room > pushed.most) continue;
      if (room < pushed.most) pushed.degree = -1;
      pushed.most = room;
      if (At(p).to == idle_end_) continue;
      pushed.degree = std::max({pushed.degree, nodes_[At(p).from].degree, nodes_[At(p).to].degree});
    }
    return pushed;
  }

  const std::vector<Parcel>& idle_;
  Parcels& parcels_;
  const std::vector<int32_t>& chosen_;
  Budget& budget_;
  std::vector<int64_t> first_;
  const int32_t idle_end_;
  std::vector<Node> nodes_;  // by link
  int64_t visit_ = 0;
  std::vector<std::pair<int32_t, bool>> cycle_;  // parcel, whether it gains
};

class Dealer {
 public:
  Dealer(Parcels& parcels, const std::vector<int64_t>& room, const std::vector<int64_t>& tolerance,
         int32_t rounds, Budget& budget)
      : parcels_(parcels),
        room_(room),
        tolerance_(tolerance),
        budget_(budget),
        all_rounds_(rounds),
        seen_(room.size(), 0),
        lo_(room.size()),
        hi_(room.size()),
        first_of_(room.size()) {}

  // Deals the chosen parcels out to `rounds` rounds from `begin` on.
  void Deal(std::vector<int32_t> chosen, int32_t begin, int32_t rounds) {
    if (chosen.empty() || budget_.SpentNow()) return;
    if (rounds == 1) {
      for (const int32_t i : chosen) parcels_[i].round = begin;
      return;
    }
    const int32_t half = rounds / 2;
    std::vector<int32_t> second = Halve(chosen, half, rounds);
    Deal(std::move(chosen), begin, half);
    Deal(std::move(second), begin + half, rounds - half);
  }

 private:
  // Keeps the parcels of the first half in `chosen` and returns those of the second. A parcel that
  // is cut leaves its rest there.
  std::vector<int32_t> Halve(std::vector<int32_t>& chosen, int64_t half, int64_t rounds) {
    std::vector<int32_t> second;
    Measure(chosen, half, rounds);
    if (budget_.SpentNow()) return second;
    const std::vector<Parcel> idle = Idle();
    Halves halves(idle, parcels_, chosen, static_cast<int32_t>(room_.size()), budget_);
    halves.Split(half, rounds);
    if (budget_.SpentNow()) return second;
    const auto first = [&](size_t i) -> int64_t& { return halves.first(idle.size() + i); };
    for (const int32_t link : links_) first_of_[link] = halves.FirstOf(link);
    for (size_t i = 0; i < idle.size(); ++i) first_of_[idle[i].from] -= halves.first(i);
    second.reserve(chosen.size() / 2);
    size_t kept = 0;
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (budget_.Spent()) return second;
      if (halves.IsCut(idle.size() + i)) MakeWhole(parcels_[chosen[i]], first(i));
      const int64_t bits = first(i);
      if (bits == 0) {
        second.push_back(chosen[i]);
        continue;
      }
      if (bits < parcels_[chosen[i]].bits) second.push_back(parcels_.Cut(chosen[i], bits));
      chosen[kept++] = chosen[i];
    }
    chosen.resize(kept);
    return second;
  }

  // Finds the links of the chosen parcels, in order of appearance, and computes for each the least
  // that the first half must carry and the most that it may carry. Looks at each parcel once: there
  // may be millions.
  void Measure(const std::vector<int32_t>& chosen, int64_t half, int64_t rounds) {
    links_.clear();
    ++visit_;
    const auto add = [&](int32_t link, int64_t bits) {
      if (std::exchange(seen_[link], visit_) != visit_) {
        links_.push_back(link);
        lo_[link] = 0;
      }
      lo_[link] += bits;
    };
    for (const int32_t i : chosen) {
      const Parcel& parcel = parcels_[i];
      add(parcel.from, parcel.bits);
      add(parcel.to, parcel.bits);
    }
    for (const int32_t link : links_) {
      lo_[link] -= MulDiv(room_[link], rounds - half, all_rounds_);
      hi_[link] = MulDiv(room_[link], half, all_rounds_);
    }
  }

  // Idle time of each link, as parcels.
  std::vector<Parcel> Idle() const {
    std::vector<Parcel> idle;
    const int32_t idle_end = static_cast<int32_t>(room_.size());
    for (const int32_t link : links_) {
      if (hi_[link] <= lo_[link]) continue;
      idle.push_back({.from = link, .to = idle_end, .bits = hi_[link] - lo_[link]});
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

  Parcels& parcels_;
  const std::vector<int64_t>& room_;
  const std::vector<int64_t>& tolerance_;
  Budget& budget_;
  const int32_t all_rounds_;
  std::vector<int32_t> links_;  // the current ones
  std::vector<int64_t> seen_;   // by link: the last visit that saw it
  int64_t visit_ = 0;
  std::vector<int64_t> lo_;  // of the current links: least and most that the first half may carry
  std::vector<int64_t> hi_;
  std::vector<int64_t> first_of_;  // what the first half carries
};

}  // namespace

std::vector<Parcel> DealOut(std::vector<Parcel>& parcels, const std::vector<int64_t>& room,
                            const std::vector<int64_t>& tolerance, int32_t rounds, Budget& budget) {
  Parcels all(parcels);
  Dealer(all, room, tolerance, rounds, budget).Deal(InOrder(parcels.size()), 0, rounds);
  return std::move(all).TakeCutOff();
}

}  // namespace remesh::planner
