// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/network/network.h"
#include "planner/schedule/rounds.h"
#include "planner/values/rational.h"

namespace remesh {

// Who is how busy with pairs: every NIC with those across hosts, every device's fabric with those
// inside one, egress and ingress apart. Time is measured by the busiest of them all: a link that
// works all that time does kWhole.
class Shares {
 public:
  static constexpr int64_t kWhole = int64_t{1} << 30;

  Shares(const std::vector<PairWork>& pairs, const Network& network);

  // Links, numbered: egress of NICs, of devices' fabric, then ingress of both.
  int32_t links() const { return static_cast<int32_t>(whole_.size()); }
  int32_t Sender(int32_t from, int32_t to) const { return LinkOf(from, to); }
  int32_t Receiver(int32_t from, int32_t to) const { return links() / 2 + LinkOf(to, from); }
  // Bits that the link can do in all.
  int64_t BitsOf(int32_t link) const { return whole_[link]; }

  // What `bits` from one device to another take of the sender and of the receiver; 0 in place.
  int64_t OfSender(int32_t from, int32_t to, int64_t bits) const {
    return from == to ? 0 : MulDiv(bits, kWhole, whole_[Sender(from, to)]);
  }
  int64_t OfReceiver(int32_t from, int32_t to, int64_t bits) const {
    return from == to ? 0 : MulDiv(bits, kWhole, whole_[Receiver(from, to)]);
  }

 private:
  int32_t LinkOf(int32_t device, int32_t other) const {
    const bool inside = network_.host_of[device] == network_.host_of[other];
    return inside ? static_cast<int32_t>(network_.nics.size()) + device : network_.nic_of[device];
  }

  const Network& network_;
  std::vector<int64_t> whole_;
};

}  // namespace remesh
