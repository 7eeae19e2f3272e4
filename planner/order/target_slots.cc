// SPDX-License-Identifier: Apache-2.0
#include "planner/order/target_slots.h"

#include <algorithm>

namespace remesh::planner {
namespace {

constexpr int64_t kSlotPairsMax = int64_t{1} << 22;
constexpr int64_t kBlockPairsMax = int64_t{1} << 24;

int64_t BitsAt(const std::vector<HeldShare>& shares, int32_t place) {
  const auto found =
      std::lower_bound(shares.begin(), shares.end(), place,
                       [](const HeldShare& share, int32_t p) { return share.place < p; });
  return found == shares.end() || found->place != place ? 0 : found->bits;
}

// Sorts shares by place and merges those of one place.
void Merge(std::vector<HeldShare>& shares) {
  std::sort(shares.begin(), shares.end(),
            [](const HeldShare& a, const HeldShare& b) { return a.place < b.place; });
  size_t merged = 0;
  for (const HeldShare& share : shares) {
    if (merged > 0 && shares[merged - 1].place == share.place) {
      shares[merged - 1].bits += share.bits;
    } else {
      shares[merged++] = share;
    }
  }
  shares.resize(merged);
}

// Hosts with slots that hold the tape, rising.
Group HoldingHosts(const Group& holders, const TargetSlots& slots) {
  Group hosts;
  for (int32_t device : holders) {
    const int32_t host = slots.host_of[device];
    if (host >= 0 && (hosts.empty() || hosts.back() != host)) hosts.push_back(host);
  }
  return hosts;
}

class NeedsFinder {
 public:
  NeedsFinder(const Atoms& atoms, const TargetSlots& slots) : atoms_(atoms), slots_(slots) {
    const size_t count = slots.given.size();
    needs_ = {.host_bits = std::vector<int64_t>(count, 0),
              .on_host = std::vector<std::vector<HeldShare>>(count),
              .host_base = std::vector<int64_t>(slots.hosts.size(), 0),
              .device_bits = std::vector<int64_t>(count, 0),
              .on_device = std::vector<std::vector<HeldShare>>(count),
              .device_base = std::vector<int64_t>(slots.host_of.size(), 0)};
  }

  std::optional<SlotNeeds> Run() {
    for (const Tape& tape : atoms_.tapes) {
      AddToHosts(tape, HoldingHosts(atoms_.groups[tape.holders], slots_));
      AddToDevices(tape);
      if (pairs_ > kSlotPairsMax) return std::nullopt;
    }
    for (auto* lists : {&needs_.on_host, &needs_.on_device}) {
      for (std::vector<HeldShare>& shares : *lists) Merge(shares);
    }
    return std::move(needs_);
  }

 private:
  const Group& NeedersOf(const Tape& tape) const { return atoms_.groups[tape.needers]; }
  bool AllNeed(const Tape& tape) const { return NeedersOf(tape).size() == slots_.given.size(); }

  void AddToHosts(const Tape& tape, const Group& hosts) {
    if (hosts.size() == slots_.hosts.size()) return;
    if (AllNeed(tape)) {
      for (int64_t& base : needs_.host_base) base += tape.bits;
      for (int32_t host : hosts) needs_.host_base[host] -= tape.bits;
      return;
    }
    pairs_ += static_cast<int64_t>(NeedersOf(tape).size() * hosts.size());
    if (pairs_ > kSlotPairsMax) return;
    for (int32_t device : NeedersOf(tape)) {
      const int32_t slot = slots_.slot_given[device];
      needs_.host_bits[slot] += tape.bits;
      for (int32_t host : hosts) needs_.on_host[slot].push_back({host, tape.bits});
    }
  }

  void AddToDevices(const Tape& tape) {
    Group places;
    if (tape.same_memory) {
      for (int32_t device : atoms_.groups[tape.holders]) {
        if (slots_.slot_given[device] >= 0) places.push_back(device);
      }
    }
    if (places.size() == slots_.given.size()) return;
    for (int32_t device : NeedersOf(tape)) {
      needs_.device_bits[slots_.slot_given[device]] += tape.bits;
    }
    if (AllNeed(tape)) {
      for (int32_t place : places) needs_.device_base[place] += tape.bits;
      return;
    }
    pairs_ += static_cast<int64_t>(NeedersOf(tape).size() * places.size());
    if (pairs_ > kSlotPairsMax) return;
    for (int32_t device : NeedersOf(tape)) {
      auto& shares = needs_.on_device[slots_.slot_given[device]];
      for (int32_t place : places) shares.push_back({place, tape.bits});
    }
  }

  const Atoms& atoms_;
  const TargetSlots& slots_;
  SlotNeeds needs_;
  int64_t pairs_ = 0;
};

}  // namespace

TargetSlots FindTargetSlots(const ReshardRequest& canonical, const Network& network) {
  TargetSlots slots;
  slots.slot_given.assign(network.device_count(), -1);
  slots.host_of.assign(network.device_count(), -1);
  const DeviceList* last = nullptr;
  for (const ArraySpec& array : canonical.arrays) {
    if (array.target.devices.get() == last) continue;
    last = array.target.devices.get();
    for (int64_t device : *last) {
      if (slots.slot_given[device] >= 0) continue;
      slots.slot_given[device] = slots.count();
      slots.given.push_back(static_cast<int32_t>(device));
    }
  }
  slots.devices = slots.given;
  std::sort(slots.devices.begin(), slots.devices.end());
  for (int32_t device : slots.devices) {
    if (slots.hosts.empty() || slots.hosts.back() != network.host_of[device]) {
      slots.hosts.push_back(network.host_of[device]);
      slots.devices_of.emplace_back();
    }
    slots.devices_of.back().push_back(device);
  }
  for (int32_t device = 0; device < network.device_count(); ++device) {
    const auto host =
        std::lower_bound(slots.hosts.begin(), slots.hosts.end(), network.host_of[device]);
    if (host == slots.hosts.end() || *host != network.host_of[device]) continue;
    slots.host_of[device] = static_cast<int32_t>(host - slots.hosts.begin());
  }
  return slots;
}

int64_t SlotNeeds::Entering(int32_t slot, int32_t host) const {
  return host_bits[slot] - BitsAt(on_host[slot], host);
}

int64_t SlotNeeds::Received(int32_t slot, int32_t device) const {
  return device_bits[slot] - BitsAt(on_device[slot], device);
}

std::optional<SlotNeeds> FindSlotNeeds(const Atoms& atoms, const TargetSlots& slots) {
  return NeedsFinder(atoms, slots).Run();
}

namespace {

// The number of blocks that need anything.
size_t NeedyBlocks(const Atoms& atoms, const TargetSlots& slots,
                   const std::vector<int32_t>& block_of, int32_t blocks) {
  std::vector<bool> needs(blocks, false);
  for (const Tape& tape : atoms.tapes) {
    for (int32_t device : atoms.groups[tape.needers])
      needs[block_of[slots.slot_given[device]]] = true;
  }
  return std::count(needs.begin(), needs.end(), true);
}

}  // namespace

std::optional<std::vector<int64_t>> BlockNeeds(const Atoms& atoms, const TargetSlots& slots,
                                               const std::vector<int32_t>& block_of,
                                               int32_t blocks) {
  const size_t hosts = slots.hosts.size();
  // Each of these makes a pair with every host. Known before there is a table of gigabytes.
  if (NeedyBlocks(atoms, slots, block_of, blocks) * hosts > kBlockPairsMax) return std::nullopt;
  std::vector<int64_t> entering(blocks * hosts, 0);
  std::vector<int64_t> seen(blocks, -1);  // by block: the last tape that it needs
  int64_t pairs = 0;
  for (size_t s = 0; s < atoms.tapes.size(); ++s) {
    const Tape& tape = atoms.tapes[s];
    const Group holding = HoldingHosts(atoms.groups[tape.holders], slots);
    for (int32_t device : atoms.groups[tape.needers]) {
      const int32_t block = block_of[slots.slot_given[device]];
      if (seen[block] == static_cast<int64_t>(s)) continue;
      seen[block] = static_cast<int64_t>(s);
      pairs += static_cast<int64_t>(hosts + holding.size());
      if (pairs > kBlockPairsMax) return std::nullopt;
      for (size_t h = 0; h < hosts; ++h) entering[block * hosts + h] += tape.bits;
      for (int32_t host : holding) entering[block * hosts + host] -= tape.bits;
    }
  }
  return entering;
}

}  // namespace remesh::planner
