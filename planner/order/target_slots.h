// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/network/network.h"

namespace remesh::planner {

// The places of target layouts when any device may take any place. A slot is what one device holds
// of all arrays together, so that shards which the request puts on one device stay together. Slots
// are numbered in the order in which target lists first name their devices.
struct TargetSlots {
  std::vector<int32_t> given;       // slot -> the device that the request puts on it
  std::vector<int32_t> devices;     // the same devices, rising
  std::vector<int32_t> slot_given;  // device -> the slot that the request puts it on, -1: none
  std::vector<int32_t> hosts;    // hosts of these devices, rising; below, "host" is an index here
  std::vector<int32_t> host_of;  // device -> host, -1 where the host has no slot
  std::vector<std::vector<int32_t>> devices_of;  // host -> its devices, rising

  int32_t count() const { return static_cast<int32_t>(given.size()); }
  int32_t host_count() const { return static_cast<int32_t>(hosts.size()); }
};

TargetSlots FindTargetSlots(const ReshardRequest& canonical, const Network& network);

// Bits of a slot's need that a place (a device or a host) holds.
struct HeldShare {
  int32_t place = 0;
  int64_t bits = 0;
};

// The bits that each slot needs, and the places that hold them. Leaves out bits that all places
// hold alike, and counts bits that all slots need by place: neither depends on the choice of
// places.
struct SlotNeeds {
  std::vector<int64_t> host_bits;               // by slot: bits that some host does not hold
  std::vector<std::vector<HeldShare>> on_host;  // by slot, places rising: of host_bits
  std::vector<int64_t> host_base;               // by host: bits that enter once, whatever its slots
  std::vector<int64_t> device_bits;             // by slot
  std::vector<std::vector<HeldShare>>
      on_device;                     // by slot, places (devices) rising: of device_bits
  std::vector<int64_t> device_base;  // by device: bits kept there, whatever its slot

  // Bits that enter `host` for the slot.
  int64_t Entering(int32_t slot, int32_t host) const;
  // Bits that `device` receives for the slot, without device_base.
  int64_t Received(int32_t slot, int32_t device) const;
};

// nullopt when slots and holders make more than 2^22 pairs.
std::optional<SlotNeeds> FindSlotNeeds(const Atoms& atoms, const TargetSlots& slots);

// Bits that enter each host when it takes all the slots of a block, each bit once: result[block *
// hosts + host]. `block_of`: by slot, 0 .. blocks - 1. nullopt when blocks and holding hosts make
// more than 2^24 pairs.
std::optional<std::vector<int64_t>> BlockNeeds(const Atoms& atoms, const TargetSlots& slots,
                                               const std::vector<int32_t>& block_of,
                                               int32_t blocks);

}  // namespace remesh::planner
