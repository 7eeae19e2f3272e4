// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "worker/transport/testing/forwarding_transport.h"

namespace remesh::worker {

// What a tap does to slices on their way (it leaves their digests alone), and to their group.
struct Tap {
  bool spoil = false;                      // the first byte of each
  std::vector<std::byte>* sent = nullptr;  // all of them, one after the other
  // While true, no group is quiesced. null: it is false.
  const std::atomic<bool>* lingers = nullptr;
};

class TappedGroup : public PeerGroup {
 public:
  TappedGroup(std::unique_ptr<PeerGroup> group, Tap tap) : group_(std::move(group)), tap_(tap) {}
  void Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) override {
    if (tap_.sent != nullptr && tag.index % 2 == 0)
      tap_.sent->insert(tap_.sent->end(), data.begin(), data.end());
    group_->Send(peer, tag, data, std::move(done));
  }
  void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) override {
    const bool spoil = tap_.spoil && tag.index % 2 == 0;
    group_->Receive(peer, tag, buffer, [=, done = std::move(done)](absl::Status status) mutable {
      if (spoil) buffer[0] ^= std::byte{1};
      done(status);
    });
  }
  void Abort() override { group_->Abort(); }
  bool quiesced() const override {
    return (tap_.lingers == nullptr || !*tap_.lingers) && group_->quiesced();
  }

 private:
  std::unique_ptr<PeerGroup> group_;
  const Tap tap_;
};

class TappedTransport : public ForwardingTransport {
 public:
  TappedTransport(std::unique_ptr<Transport> transport, Tap tap)
      : ForwardingTransport(std::move(transport)), tap_(tap) {}
  absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) override {
    auto group = ForwardingTransport::Open(self, std::move(peers));
    if (!group.ok()) return group.status();
    return std::make_unique<TappedGroup>(*std::move(group), tap_);
  }
  bool gathers() const override { return false; }

 private:
  const Tap tap_;
};

}  // namespace remesh::worker
