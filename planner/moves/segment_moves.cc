// SPDX-License-Identifier: Apache-2.0
#include "planner/moves/segment_moves.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace remesh::planner {
namespace {

// A stripe is scattered over all needers if that makes no more than this many moves, else over a
// team of a few, which changes from segment to segment.
constexpr int64_t kScatterMovesMax = 1 << 16;
constexpr int64_t kTeamMin = 8;
// The most masks that are kept. Plans with more masks ask for most of them only once.
constexpr size_t kMasksKept = 4096;

}  // namespace

absl::Span<const int32_t> InHost(const Group& group, int32_t host, const Network& network) {
  if (group.size() == 1) {
    return absl::MakeConstSpan(group).subspan(network.host_of[group.front()] == host ? 0 : 1);
  }
  const Network::HostNode& node = network.hosts[host];
  const auto begin = std::lower_bound(group.begin(), group.end(), node.first_device);
  const auto most = std::min<ptrdiff_t>(node.device_count, group.end() - begin);
  const auto end = std::lower_bound(begin, begin + most, node.first_device + node.device_count);
  return absl::MakeConstSpan(group).subspan(begin - group.begin(), end - begin);
}

bool Holds(absl::Span<const int32_t> sorted, int32_t device) {
  return std::binary_search(sorted.begin(), sorted.end(), device);
}

SegmentMover::SegmentMover(const Atoms& atoms, const std::vector<Segment>& segments,
                           const Network& network, Striping& striping, std::vector<bool> crowded,
                           size_t expected)
    : atoms_(atoms),
      segments_(segments),
      network_(network),
      striping_(striping),
      crowded_(std::move(crowded)),
      moves_(expected),
      sent_(network.host_of.size(), 0),
      arrival_of_host_(network.hosts.size(), -1) {}

void SegmentMover::Begin(int32_t segment) {
  const Tape& tape = atoms_.tapes[segments_[segment].tape];
  segment_ = segment;
  size_ = segments_[segment].size();
  unit_ = tape.unit_bits;
  holders_ = &atoms_.groups[tape.holders];
  needers_ = &atoms_.groups[tape.needers];
  for (const auto& [host, stripes] : arrivals_) arrival_of_host_[host] = -1;
  arrivals_.clear();
  staged_.clear();
}

int32_t SegmentMover::OutMask(int32_t host) {
  return MaskOf({holders_, needers_, host}, InHost(*holders_, host, network_),
                InHost(*needers_, host, network_));
}

int32_t SegmentMover::InMask(int32_t host, absl::Span<const int32_t> needers) {
  return MaskOf({nullptr, needers_, host}, needers, {});
}

int32_t SegmentMover::MaskOf(const MaskKey& key, absl::Span<const int32_t> some,
                             absl::Span<const int32_t> others) {
  if (some.size() + others.size() == 1) return striping_.MaskOf(some, others);  // needs no cache
  if (const auto kept = masks_.find(key); kept != masks_.end()) return kept->second;
  const int32_t mask = striping_.MaskOf(some, others);
  if (masks_.size() < kMasksKept) masks_.emplace(key, mask);
  return mask;
}

void SegmentMover::AddDemands(int32_t segment, const RouteEdges& edges) {
  Begin(segment);
  for (const RouteEdge& edge : edges) {
    striping_.AddDemand(Direction::kOut, OutMask(edge.from_host), size_);
    const auto needers = InHost(*needers_, edge.to_host, network_);
    striping_.AddDemand(Direction::kIn, InMask(edge.to_host, needers), size_);
  }
}

void SegmentMover::Add(int32_t segment, const RouteEdges* edges) {
  Begin(segment);
  edges_ = edges;
  MoveInside();
  if (edges == nullptr) return;
  for (const RouteEdge& edge : *edges) Follow(edge);
}

void SegmentMover::MoveInside() {
  for (size_t begin = 0, end = 0; begin < needers_->size(); begin = end) {
    const int32_t host = network_.host_of[(*needers_)[begin]];
    while (end < needers_->size() && network_.host_of[(*needers_)[end]] == host) ++end;
    const auto near = InHost(*holders_, host, network_);
    for (size_t i = begin; i < end && !near.empty(); ++i) MoveNear(near, host, i);
  }
}

// Brings the segment to needer i from the holders of its host.
void SegmentMover::MoveNear(absl::Span<const int32_t> near, int32_t host, size_t i) {
  const int32_t needer = (*needers_)[i];
  const auto source = [](int32_t device) { return Stripe{0, 0, device, Space::kSource, 0}; };
  if (Holds(near, needer)) return AddMove(0, size_, source(needer), needer, Space::kTarget);
  if (IsCrowded(host)) {
    if (arrival_of_host_[host] < 0) SpreadFromHolders(host, near);
    return;
  }
  const int64_t n = static_cast<int64_t>(near.size());
  for (int64_t k = 0; k < n; ++k) {  // an equal part from each, in whole elements
    AddMove(PartOf(0, size_, k, n), PartOf(0, size_, k + 1, n),
            source(near[(k + static_cast<int64_t>(i)) % n]), needer, Space::kTarget);
  }
}

// Where part k of n of the range begins, in whole elements.
int64_t SegmentMover::PartOf(int64_t lo, int64_t hi, int64_t k, int64_t n) const {
  return k == n ? hi : lo + MulDiv((hi - lo) / unit_, k, n) * unit_;
}

void SegmentMover::SpreadFromHolders(int32_t host, absl::Span<const int32_t> near) {
  const int64_t n = static_cast<int64_t>(near.size());
  Stripes stripes;
  for (int64_t k = 0; k < n; ++k) {
    stripes.push_back({PartOf(0, size_, k, n), PartOf(0, size_, k + 1, n), near[(k + segment_) % n],
                       Space::kSource, 0});
  }
  Arrive(host, InHost(*needers_, host, network_), std::move(stripes));
}

void SegmentMover::Deal(Direction direction, int32_t mask, int64_t lo, int64_t hi,
                        std::vector<Lane>& lanes) {
  while (lo < hi) {
    const Striping::Taken taken = striping_.Take(direction, mask, hi - lo, unit_);
    lanes.push_back({lo, lo + taken.bits, taken.nic});
    lo += taken.bits;
  }
}

void SegmentMover::FindIngressLanes(int32_t host, absl::Span<const int32_t> needers) {
  in_.clear();
  Deal(Direction::kIn, InMask(host, needers), 0, size_, in_);
}

void SegmentMover::FindEgressLanes(int32_t host) {
  out_.clear();
  const int32_t mask = OutMask(host);
  if (arrival_of_host_[host] < 0) return Deal(Direction::kOut, mask, 0, size_, out_);
  for (const Stripe& arrived : arrivals_[arrival_of_host_[host]].second) {
    const int32_t nic = network_.nic_of[arrived.device];
    const int64_t here =
        striping_.TakeFrom(Direction::kOut, mask, nic, arrived.hi - arrived.lo, unit_);
    if (here > 0) out_.push_back({arrived.lo, arrived.lo + here, nic});
    Deal(Direction::kOut, mask, arrived.lo + here, arrived.hi, out_);
  }
}

void SegmentMover::Follow(const RouteEdge& edge) {
  const auto needers = InHost(*needers_, edge.to_host, network_);
  FindEgressLanes(edge.from_host);
  FindIngressLanes(edge.to_host, needers);
  if (IsDirect()) {
    const Stripe whole{0, size_, holders_->front(), Space::kSource, 0};
    return AddMove(0, size_, whole, needers_->front(), Space::kTarget);
  }
  Stripes arrived;
  for (size_t o = 0, i = 0; o < out_.size() && i < in_.size();) {
    Lane lane{std::max(out_[o].lo, in_[i].lo), std::min(out_[o].hi, in_[i].hi), out_[o].nic};
    int32_t receiver = DeviceOnNic(needers, in_[i].nic);
    const Space space = receiver >= 0 ? Space::kTarget : Space::kStaging;
    if (receiver < 0) receiver = DeviceOnNic(network_.nics[in_[i].nic].devices, in_[i].nic);
    while (lane.lo < lane.hi) {
      const Stripe sender = Sender(edge.from_host, lane);
      const int64_t hi = std::min(lane.hi, sender.hi);
      AddMove(lane.lo, hi, sender, receiver, space);
      arrived.push_back({lane.lo, hi, receiver, space, sender.ready + 1});
      lane.lo = hi;
    }
    (out_[o].hi <= in_[i].hi ? o : i) += 1;
  }
  Arrive(edge.to_host, needers, std::move(arrived));
}

// Whether the segment goes from its only holder to its only needer, through the NICs of both.
bool SegmentMover::IsDirect() const {
  if (holders_->size() > 1 || needers_->size() > 1 || edges_->size() > 1) return false;
  if (out_.size() > 1 || in_.size() > 1) return false;
  return out_.front().nic == network_.nic_of[holders_->front()] &&
         in_.front().nic == network_.nic_of[needers_->front()];
}

// Copies the stripes that arrived at a host to the other needers there.
void SegmentMover::Arrive(int32_t host, absl::Span<const int32_t> all, Stripes arrived) {
  const Needers needers = InNeed(host, all);
  if (IsCrowded(host)) {
    arrived = Relieve(host, arrived, needers);
  } else {
    for (const Stripe& stripe : arrived) Copy(stripe, needers);
  }
  arrival_of_host_[host] = static_cast<int32_t>(arrivals_.size());
  arrivals_.emplace_back(host, std::move(arrived));
}

// Needers of the host that do not hold the segment.
SegmentMover::Needers SegmentMover::InNeed(int32_t host, absl::Span<const int32_t> needers) const {
  const auto holders = InHost(*holders_, host, network_);
  Needers devices;
  for (const int32_t needer : needers) {
    if (!Holds(holders, needer)) devices.push_back(needer);
  }
  return devices;
}

void SegmentMover::Copy(const Stripe& stripe, absl::Span<const int32_t> needers) {
  for (const int32_t needer : needers) {
    if (needer != stripe.device) AddMove(stripe.lo, stripe.hi, stripe, needer, Space::kTarget);
  }
}

// What each of the needers and of the devices that have the stripes sends if they share it. `sends`:
// of the host's devices, from `first` on.
int64_t SegmentMover::FairShare(absl::Span<const int64_t> sends, int32_t first,
                                const Stripes& arrived, const Needers& needers) {
  std::vector<int32_t> sharing(needers.begin(), needers.end());
  for (const Stripe& stripe : arrived) sharing.push_back(stripe.device);
  std::sort(sharing.begin(), sharing.end());
  sharing.erase(std::unique(sharing.begin(), sharing.end()), sharing.end());
  int64_t sum = 0;
  for (const int32_t device : sharing) sum += sends[device - first];
  return sum / static_cast<int64_t>(sharing.size());
}

// Copies the stripes too, but scatters those of devices with too much to send. Returns the stripes
// to send on.
SegmentMover::Stripes SegmentMover::Relieve(int32_t host, const Stripes& arrived,
                                            const Needers& needers) {
  const auto copies = [&](const Stripe& stripe) {
    return static_cast<int64_t>(needers.size()) - (Holds(needers, stripe.device) ? 1 : 0);
  };
  const int32_t first = network_.hosts[host].first_device;
  // The bits that each device will have sent if the devices that have the stripes make all the
  // copies.
  std::vector<int64_t> sends(sent_.begin() + first,
                             sent_.begin() + first + network_.hosts[host].device_count);
  for (const Stripe& stripe : arrived) {
    sends[stripe.device - first] += copies(stripe) * (stripe.hi - stripe.lo);
  }
  const int64_t fair = FairShare(sends, first, arrived, needers);
  Stripes parts;
  for (const Stripe& stripe : arrived) {
    const int64_t size = stripe.hi - stripe.lo;
    if (copies(stripe) > 1 && sends[stripe.device - first] > fair + size) {
      Scatter(stripe, needers, parts);
    } else {
      Copy(stripe, needers);
      parts.push_back(stripe);
    }
  }
  return parts;
}

// Gives a part of the stripe to each of a team of needers, which pass it on. Where the host sends
// the segment on, the stripe's device keeps one more part as its own, so that its NIC has something
// to send too; that part is scattered in the same way, in smaller parts.
void SegmentMover::Scatter(const Stripe& stripe, Needers needers, Stripes& parts) {
  needers.erase(std::remove(needers.begin(), needers.end(), stripe.device), needers.end());
  const int64_t n = static_cast<int64_t>(needers.size());
  const int64_t segments = static_cast<int64_t>(segments_.size());
  const int64_t team =
      std::clamp<int64_t>(kScatterMovesMax / (segments * n), std::min(kTeamMin, n), n);
  std::rotate(needers.begin(), needers.begin() + segment_ % n, needers.end());
  const auto deal = [&](const Stripe& from, int64_t shares, Stripes* dealt) {
    for (int64_t k = 0; k < team; ++k) {
      const Stripe part{PartOf(from.lo, from.hi, k, shares),
                        PartOf(from.lo, from.hi, k + 1, shares), needers[k], Space::kTarget,
                        from.ready + 1};
      if (part.lo == part.hi) continue;
      AddMove(part.lo, part.hi, from, part.device, Space::kTarget);
      Copy(part, needers);
      if (dealt != nullptr) dealt->push_back(part);
    }
  };
  Stripe own = stripe;
  own.lo = Sends(network_.host_of[stripe.device]) ? PartOf(stripe.lo, stripe.hi, team, team + 1)
                                                  : stripe.hi;
  deal(stripe, own.lo < stripe.hi ? team + 1 : team, &parts);
  if (own.lo < stripe.hi) {
    deal(own, team, nullptr);
    own.spread = 2;
    parts.push_back(own);
  }
  if (stripe.space == Space::kStaging) staged_.push_back(stripe);
}

// Whether the segment leaves the host.
bool SegmentMover::Sends(int32_t host) const {
  return edges_ != nullptr && std::any_of(edges_->begin(), edges_->end(),
                                          [&](const RouteEdge& e) { return e.from_host == host; });
}

// One of `devices` on `nic` (another from segment to segment), or -1.
int32_t SegmentMover::DeviceOnNic(absl::Span<const int32_t> devices, int32_t nic) const {
  int32_t count = 0;
  for (int32_t device : devices) count += network_.nic_of[device] == nic;
  if (count == 0) return -1;
  int32_t skip = segment_ % count;
  for (int32_t device : devices) {
    if (network_.nic_of[device] == nic && skip-- == 0) return device;
  }
  return -1;
}

// The stripe, and thus the device, that sends the beginning of `lane`.
SegmentMover::Stripe SegmentMover::Sender(int32_t host, const Lane& lane) {
  const int32_t arrival = arrival_of_host_[host];
  if (arrival < 0) return SenderAtHolder(host, lane);
  const int32_t holder = DeviceOnNic(InHost(*holders_, host, network_), lane.nic);
  if (holder >= 0) return {lane.lo, lane.hi, holder, Space::kSource, 0};
  return SenderAtRelay(lane, arrivals_[arrival].second);
}

SegmentMover::Stripe SegmentMover::SenderAtHolder(int32_t host, const Lane& lane) {
  const auto holders = InHost(*holders_, host, network_);
  REMESH_CHECK(!holders.empty());
  const int32_t holder = DeviceOnNic(holders, lane.nic);
  if (holder >= 0) return {lane.lo, lane.hi, holder, Space::kSource, 0};
  const int32_t needer = DeviceOnNic(InHost(*needers_, host, network_), lane.nic);
  if (needer >= 0) return {lane.lo, lane.hi, needer, Space::kTarget, 1};
  const Stripe origin{lane.lo, lane.hi, holders[segment_ % holders.size()], Space::kSource, 0};
  return Staged(origin, DeviceOnNic(network_.nics[lane.nic].devices, lane.nic));
}

SegmentMover::Stripe SegmentMover::SenderAtRelay(const Lane& lane, const Stripes& arrived) {
  const auto found = std::find_if(arrived.begin(), arrived.end(), [&](const Stripe& s) {
    return s.lo <= lane.lo && lane.lo < s.hi;
  });
  REMESH_CHECK(found != arrived.end());
  Stripe origin = *found;
  origin.lo = lane.lo;
  origin.hi = std::min(lane.hi, found->hi);
  if (network_.nic_of[origin.device] == lane.nic) return origin;
  const auto needers = InHost(*needers_, network_.host_of[origin.device], network_);
  const int32_t needer = DeviceOnNic(needers, lane.nic);
  if (needer >= 0) {
    return {origin.lo, origin.hi, needer, Space::kTarget, origin.ready + origin.spread};
  }
  return Staged(origin, DeviceOnNic(network_.nics[lane.nic].devices, lane.nic));
}

// Brings the beginning of `origin` to `device`, unless it was staged there before.
SegmentMover::Stripe SegmentMover::Staged(const Stripe& origin, int32_t device) {
  int64_t hi = origin.hi;
  for (const Stripe& before : staged_) {
    if (before.device != device) continue;
    if (before.lo <= origin.lo && origin.lo < before.hi) {
      Stripe reused = before;
      reused.lo = origin.lo;
      reused.hi = std::min(reused.hi, hi);
      return reused;
    }
    if (before.lo > origin.lo) hi = std::min(hi, before.lo);
  }
  Stripe staged{origin.lo, hi, device, Space::kStaging, origin.ready + 1};
  AddMove(origin.lo, hi, origin, device, Space::kStaging);
  staged_.push_back(staged);
  return staged;
}

void SegmentMover::AddMove(int64_t lo, int64_t hi, const Stripe& from, int32_t to, Space to_space) {
  if (lo == hi) return;
  if (IsCrowded(network_.host_of[to]) && from.device != to &&
      network_.host_of[from.device] == network_.host_of[to]) {
    sent_[from.device] += hi - lo;
  }
  moves_.push_back({.segment = segment_,
                    .from_device = from.device,
                    .to_device = to,
                    .from_space = from.space,
                    .to_space = to_space,
                    .hop = from.ready,
                    .lo = lo,
                    .hi = hi});
}

}  // namespace remesh::planner
