// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/transport/transport.h"

namespace remesh::worker {

// Another transport under its own name, for tests that change some of it.
class ForwardingTransport : public Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<Transport> base) : base_(std::move(base)) {}

  std::string_view name() const override { return base_->name(); }
  std::string address() const override { return base_->address(); }
  absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) override {
    return base_->Open(self, std::move(peers));
  }
  bool gathers() const override { return base_->gathers(); }
  bool Progress() override { return base_->Progress(); }
  void Wait(std::chrono::milliseconds timeout) override { base_->Wait(timeout); }
  void Wake() override { base_->Wake(); }

 private:
  const std::unique_ptr<Transport> base_;
};

}  // namespace remesh::worker
