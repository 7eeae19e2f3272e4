// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_transport.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

// A group keeps the time; see NcclGroup::Progress().
constexpr std::chrono::milliseconds kTick{100};

// All devices of the peer table, which tags count in its order.
std::vector<NcclRank> RanksOf(const std::vector<Peer>& peers) {
  std::vector<NcclRank> ranks;
  for (size_t host = 0; host < peers.size(); ++host) {
    for (int local = 0; local < peers[host].devices; ++local) {
      ranks.push_back({.device = static_cast<uint32_t>(ranks.size()),
                       .host = static_cast<int>(host),
                       .local_device = local});
    }
  }
  return ranks;
}

}  // namespace

// A group of NCCL with the one that it connects by.
class NcclTransport::Group : public PeerGroup {
 public:
  Group(NcclTransport* transport, std::unique_ptr<PeerGroup> base, NcclSetup setup)
      : transport_(transport), base_(std::move(base)), nccl_(WhenFirst(std::move(setup))) {
    transport_->groups_.push_back(this);
  }
  ~Group() override {
    std::erase(transport_->groups_, this);
    transport_->Wake();  // the next one may connect
  }

  bool Progress() { return nccl_.Progress(); }

  void Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) override {
    nccl_.Send(peer, tag, data, std::move(done));
  }
  void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) override {
    nccl_.Receive(peer, tag, buffer, std::move(done));
  }
  bool windowed() const override { return true; }
  void Expect(std::vector<int32_t> operations) override { nccl_.Expect(std::move(operations)); }
  void Abort() override {
    nccl_.Abort();
    base_->Abort();
  }
  bool quiesced() const override { return nccl_.quiesced() && base_->quiesced(); }

 private:
  // Two groups on one device's stream could start their windows in different orders on different
  // hosts, and wait for each other.
  NcclSetup WhenFirst(NcclSetup setup) {
    setup.may_connect = [this] { return transport_->groups_.front() == this; };
    return setup;
  }

  NcclTransport* const transport_;
  const std::unique_ptr<PeerGroup> base_;
  NcclGroup nccl_;
};

NcclTransport::NcclTransport(std::unique_ptr<Transport> base, const NcclApi* api,
                             GpuStreams* streams, NcclOptions options,
                             std::function<void()> on_stuck)
    : base_(std::move(base)),
      api_(api),
      streams_(streams),
      options_(options),
      on_stuck_(std::move(on_stuck)) {}

NcclTransport::~NcclTransport() { REMESH_CHECK(groups_.empty()); }

absl::StatusOr<std::unique_ptr<PeerGroup>> NcclTransport::Open(int self, std::vector<Peer> peers) {
  if (peers.size() == 1) return base_->Open(self, std::move(peers));  // nobody to exchange with
  NcclSetup setup{.api = api_,
                  .streams = streams_,
                  .self = self,
                  .ranks = RanksOf(peers),
                  .options = options_,
                  .notify = [this] { base_->Wake(); },
                  .on_stuck = on_stuck_};
  for (const Peer& peer : peers) setup.hosts.push_back(peer.address);
  ASSIGN_OR_RETURN(std::unique_ptr<PeerGroup> base, base_->Open(self, std::move(peers)));
  setup.bootstrap = base.get();
  return std::make_unique<Group>(this, std::move(base), std::move(setup));
}

bool NcclTransport::Progress() {
  bool any = base_->Progress();
  for (Group* group : std::vector<Group*>(groups_)) {
    // What another's callback has ended is no more.
    if (std::find(groups_.begin(), groups_.end(), group) != groups_.end()) any |= group->Progress();
  }
  return any;
}

void NcclTransport::Wait(std::chrono::milliseconds timeout) {
  base_->Wait(groups_.empty() ? timeout : std::min(timeout, kTick));
}

}  // namespace remesh::worker
