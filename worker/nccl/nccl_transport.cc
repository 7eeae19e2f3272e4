// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_transport.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace remesh::worker {
namespace {

// How often a group must look at the time; see NcclGroup::Progress().
constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::milliseconds kLookEvery{1};  // in the destructor

absl::Status Gone(const Lasting& lasting) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("communicators ", lasting.name,
                                ", which were to be used again, are not kept on this host"),
                   {"COMMUNICATORS_GONE", {{"communicators", lasting.name}}});
}

// Numbers the devices of peers that are all hosts of the attempt. Returns who is windowed.
WindowedHosts Number(int self, std::vector<Peer>& peers) {
  WindowedHosts whole;
  uint32_t device = 0;
  for (int host = 0; host < std::ssize(peers); ++host) {
    Peer& peer = peers[host];
    peer.first_device = device;
    device += peer.devices;
    if (!peer.windowed) {
      whole.beside_streams = true;
      continue;
    }
    if (host == self) whole.place = whole.hosts;
    peer.first_rank = whole.ranks;
    whole.ranks += peer.devices;
    ++whole.hosts;
  }
  return whole;
}

// The devices of windowed peers.
std::vector<NcclRank> RanksOf(const std::vector<Peer>& peers) {
  std::vector<NcclRank> ranks;
  for (int host = 0; host < std::ssize(peers); ++host) {
    const Peer& peer = peers[host];
    for (int local = 0; peer.windowed && local < peer.devices; ++local) {
      ranks.push_back({.device = peer.first_device + local,
                       .host = host,
                       .local_device = local,
                       .rank = peer.first_rank + local});
    }
  }
  return ranks;
}

std::vector<bool> WindowedOf(const std::vector<Peer>& peers) {
  std::vector<bool> windowed;
  for (const Peer& peer : peers) windowed.push_back(peer.windowed);
  return windowed;
}

}  // namespace

// An NCCL group, with the group of the base transport over which it connects, and which reaches
// the peers that are not windowed.
class NcclTransport::Group : public PeerGroup {
 public:
  Group(NcclTransport* transport, std::unique_ptr<PeerGroup> base, std::vector<bool> windowed,
        NcclSetup setup, Lasting lasting, std::unique_ptr<NcclLink> made)
      : transport_(transport),
        base_(std::move(base)),
        windowed_(std::move(windowed)),
        lasting_(std::move(lasting)),
        nccl_(WhenItMay(std::move(setup)), std::move(made)) {
    transport_->groups_.push_back(this);
  }
  ~Group() override {
    std::erase(transport_->groups_, this);
    transport_->Wake();  // the next one may connect
  }

  bool Progress() { return nccl_.Progress(); }
  // Whether some of its work may be on the devices.
  bool at_work() const { return begun_ && !nccl_.quiesced(); }

  void Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) override {
    LinkTo(peer).Send(peer, tag, data, std::move(done));
  }
  void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) override {
    LinkTo(peer).Receive(peer, tag, buffer, std::move(done));
  }
  void Expect(std::vector<int32_t> operations) override { nccl_.Expect(std::move(operations)); }
  bool Rest() override {
    const bool lasts = !lasting_.name.empty() && transport_->keeps_for().count() > 0;
    const bool rests = lasts && nccl_.Rest();
    rests ? base_->Abort() : Abort();
    return rests;
  }
  void Keep() override {
    // A group that was opened since uses other communicators, and would have ended these.
    if (transport_->groups_.back() == this) {
      if (auto link = nccl_.TakeLink()) transport_->shelf_.Put(lasting_, std::move(link));
    }
    Abort();
  }
  void Abort() override {
    nccl_.Abort();
    base_->Abort();
  }
  bool quiesced() const override { return nccl_.quiesced() && base_->quiesced(); }

 private:
  PeerGroup& LinkTo(int peer) {
    if (windowed_[peer]) return nccl_;
    return *base_;
  }

  // Lets a group connect only when it is the oldest and no dropped communicators are left. Two
  // groups on one device's stream could start their windows in different orders on different hosts,
  // and wait for each other. And NCCL waits for devices when it frees communicators.
  NcclSetup WhenItMay(NcclSetup setup) {
    setup.may_connect = [this] {
      begun_ = transport_->groups_.front() == this && !transport_->shelf_.dropping();
      return begun_;
    };
    return setup;
  }

  NcclTransport* const transport_;
  const std::unique_ptr<PeerGroup> base_;
  const std::vector<bool> windowed_;  // by peer
  const Lasting lasting_;
  bool begun_ = false;
  NcclGroup nccl_;
};

NcclTransport::NcclTransport(std::unique_ptr<Transport> base, const NcclApi* api,
                             GpuStreams* streams, NcclOptions options,
                             std::function<void()> on_stuck)
    : base_(std::move(base)),
      api_(api),
      streams_(streams),
      options_(options),
      on_stuck_(std::move(on_stuck)),
      shelf_(options.idle + options.idle_more, options.abort_timeout, on_stuck_) {}

NcclTransport::~NcclTransport() {
  REMESH_CHECK(groups_.empty());
  shelf_.DropAll();
  while (!shelf_.empty()) {
    shelf_.Progress(/*may_end=*/true);
    std::this_thread::sleep_for(kLookEvery);
  }
}

NcclSetup NcclTransport::SetupOf(int self, const std::vector<Peer>& peers,
                                 const WindowedHosts& whole) {
  NcclSetup setup{.api = api_,
                  .streams = streams_,
                  .self = self,
                  .ranks = RanksOf(peers),
                  .whole = whole,
                  .options = options_,
                  .notify = [this] { base_->Wake(); },
                  .on_stuck = on_stuck_};
  for (const Peer& peer : peers) setup.hosts.push_back(peer.address);
  if (whole.beside_streams) {
    setup.options.window_timeout = options_.window_timeout_beside_streams;
  }
  return setup;
}

absl::StatusOr<std::unique_ptr<PeerGroup>> NcclTransport::OpenLasting(int self,
                                                                      std::vector<Peer> peers,
                                                                      const Lasting& lasting) {
  std::vector<bool> windowed = WindowedOf(peers);
  if (std::ranges::count(windowed, true) < 2)  // no host to exchange with by NCCL
    return base_->Open(self, std::move(peers));
  std::unique_ptr<NcclLink> made = lasting.reused ? shelf_.Take(lasting) : nullptr;
  shelf_.DropAll();
  if (lasting.reused && made == nullptr) return Gone(lasting);
  const bool all = lasting.whole.hosts == 0;
  const WindowedHosts whole = all ? Number(self, peers) : lasting.whole;
  NcclSetup setup = SetupOf(self, peers, whole);
  auto base = base_->Open(self, std::move(peers));
  if (!base.ok()) {
    if (made != nullptr) shelf_.Put(lasting, std::move(made));
    shelf_.DropAll();
    return base.status();
  }
  setup.bootstrap = base->get();
  return std::make_unique<Group>(this, *std::move(base), std::move(windowed), std::move(setup),
                                 lasting, std::move(made));
}

bool NcclTransport::AnyAtWork() const {
  return std::any_of(groups_.begin(), groups_.end(), [](Group* group) { return group->at_work(); });
}

bool NcclTransport::Progress() {
  bool any = base_->Progress();
  for (Group* group : std::vector<Group*>(groups_)) {
    // The callback of another group may have destroyed this one.
    if (std::find(groups_.begin(), groups_.end(), group) != groups_.end()) any |= group->Progress();
  }
  return shelf_.Progress(/*may_end=*/!AnyAtWork()) || any;
}

void NcclTransport::Wait(std::chrono::milliseconds timeout) {
  const bool ticks = !groups_.empty() || shelf_.dropping();
  base_->Wait(ticks ? std::min(timeout, kTick) : timeout);
}

}  // namespace remesh::worker
