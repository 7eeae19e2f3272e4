// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text/transport_names.h"
#include "worker/nccl/nccl_group.h"
#include "worker/nccl/nccl_shelf.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// A transport between the devices of hosts. NCCL moves the messages between windowed peers, a
// window at once: all of their devices are ranks. An ordinary transport, `base`, connects the
// hosts, proves who they are and notices which are lost. It also moves the messages with peers that
// are not windowed, from and to memory of the host. Attempts exchange by NCCL one after the other:
// an attempt connects when those that were opened before it are gone. REQUIRES: all hosts open
// overlapping attempts in the same order. Lasting communicators: see NcclShelf.
class NcclTransport : public Transport {
 public:
  // `api` and `streams` must outlive the transport. on_stuck: see NcclSetup.
  NcclTransport(std::unique_ptr<Transport> base, const NcclApi* api, GpuStreams* streams,
                NcclOptions options, std::function<void()> on_stuck);
  // REQUIRES: no group is left.
  ~NcclTransport() override;

  std::string_view name() const override { return kNcclTransport; }
  std::string_view stream_name() const override { return base_->name(); }
  std::string address() const override { return base_->address(); }
  bool encrypts() const override { return base_->encrypts(); }
  bool windowed() const override { return true; }
  absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) override {
    return OpenLasting(self, std::move(peers), {});
  }
  absl::StatusOr<std::unique_ptr<PeerGroup>> OpenLasting(int self, std::vector<Peer> peers,
                                                         const Lasting& lasting) override;
  void AwaitLasting(const std::string& name) override { shelf_.Await(name); }
  void DropLasting(const std::string& name) override { shelf_.Drop(name); }
  std::chrono::milliseconds keeps_for() const override { return options_.idle; }
  bool Progress() override;
  void Wait(std::chrono::milliseconds timeout) override;
  void Wake() override { base_->Wake(); }

 private:
  class Group;

  NcclSetup SetupOf(int self, const std::vector<Peer>& peers, const WindowedHosts& whole);
  bool AnyAtWork() const;

  const std::unique_ptr<Transport> base_;
  const NcclApi* const api_;
  GpuStreams* const streams_;
  const NcclOptions options_;
  const std::function<void()> on_stuck_;
  NcclShelf shelf_;
  std::vector<Group*> groups_;  // open, in the order of opening
};

}  // namespace remesh::worker
