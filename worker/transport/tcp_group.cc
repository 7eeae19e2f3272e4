// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/tcp_group.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/transport/peer_table.h"
#include "worker/transport/tcp_connection.h"
#include "worker/transport/tcp_transport_impl.h"

namespace remesh::worker {
namespace {

// Limit on the receives that a peer may have waiting for our sends: more than any program has at
// once.
constexpr size_t kGrantsMax = size_t{1} << 16;

template <typename AnyRuns>
uint64_t BytesOf(const AnyRuns& runs) {
  uint64_t bytes = 0;
  for (const auto& run : runs) bytes += run.size();
  return bytes;
}

}  // namespace

TcpGroup::TcpGroup(TcpTransport* transport, int self, std::vector<Peer> peers,
                   std::vector<SocketAddress> addresses)
    : transport_(transport), self_(self), peers_(peers.size()) {
  for (size_t i = 0; i < peers.size(); ++i) {
    peers_[i].id = tcp::IdOf(peers[i].token);
    peers_[i].peer = std::move(peers[i]);
    peers_[i].address = addresses[i];
  }
}

TcpGroup::~TcpGroup() { REMESH_CHECK(quiesced()); }

int TcpGroup::PeerOf(const tcp::TokenId& id) const {
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const PeerState& p) { return p.id == id; });
  return found == peers_.end() ? -1 : static_cast<int>(found - peers_.begin());
}

void TcpGroup::End(Done done, absl::Status status) {
  transport_->End(this, std::move(done), std::move(status));
}

bool TcpGroup::Begin(PeerState& state, Done& done) {
  ++unfinished_;
  if (aborted_ || !state.lost.ok()) {
    End(std::move(done),
        aborted_ ? absl::CancelledError("the peer group was aborted") : state.lost);
    return false;
  }
  if (!std::exchange(state.dialling, true))
    transport_->Dial(this, static_cast<int>(&state - peers_.data()));
  if (state.lost.ok()) return true;
  End(std::move(done), state.lost);  // Dial() found no way to the peer
  return false;
}

void TcpGroup::SendRuns(int peer, const MessageTag& tag, ConstRuns runs, Done done) {
  PeerState& state = peers_.at(peer);
  if (!Begin(state, done)) return;
  Outgoing outgoing{std::move(runs), std::move(done)};
  if (const auto grant = state.grants.find(tag); grant != state.grants.end()) {
    const uint64_t bytes = grant->second;
    state.grants.erase(grant);
    return Transmit(state, tag, std::move(outgoing), bytes);
  }
  REMESH_CHECK(state.sends.try_emplace(tag, std::move(outgoing)).second);
}

void TcpGroup::Transmit(PeerState& state, const MessageTag& tag, Outgoing outgoing,
                        uint64_t bytes) {
  const uint64_t own = BytesOf(outgoing.runs);
  if (own != bytes) {
    state.dialled->Queue(tcp::Frame{.tag = tag, .bytes = own, .kind = tcp::Frame::Kind::kRefuse});
    return End(std::move(outgoing.done), SizesDiffer(state.peer, tag, own, bytes));
  }
  REMESH_CHECK(state.being_sent.try_emplace(tag, std::move(outgoing.done)).second);
  state.dialled->Queue(tcp::Frame{.tag = tag, .bytes = own, .kind = tcp::Frame::Kind::kData},
                       std::move(outgoing.runs), [this, &state, tag] {
                         auto sent = state.being_sent.extract(tag);
                         End(std::move(sent.mapped()), absl::OkStatus());
                       });
}

void TcpGroup::ReceiveRuns(int peer, const MessageTag& tag, Runs runs, Done done) {
  PeerState& state = peers_.at(peer);
  if (!Begin(state, done)) return;
  const uint64_t bytes = BytesOf(runs);
  Incoming incoming{std::move(runs), bytes, std::move(done)};
  REMESH_CHECK(state.receives.try_emplace(tag, std::move(incoming)).second);
  if (state.accepted != nullptr) state.accepted->Queue(tcp::Frame{.tag = tag, .bytes = bytes});
}

void TcpGroup::OnOpen(int peer, TcpConnection* connection) {
  PeerState& state = peers_[peer];
  if (!wants(peer)) return transport_->Close(connection);
  TcpConnection*& place = connection->dialled() ? state.dialled : state.accepted;
  // A peer dials again only if it takes its earlier connection for broken.
  if (place != nullptr) {
    transport_->Close(connection);
    return OnLost(peer, "it dialled twice");
  }
  place = connection;
  if (connection->dialled()) return;
  for (const auto& [tag, incoming] : state.receives)
    connection->Queue(tcp::Frame{.tag = tag, .bytes = incoming.bytes});
}

bool TcpGroup::OnFrame(int peer, const TcpConnection& connection, const tcp::Frame& frame,
                       Runs& body) {
  PeerState& state = peers_[peer];
  if (connection.dialled()) {
    if (frame.kind != tcp::Frame::Kind::kGrant || state.grants.size() >= kGrantsMax) return false;
    auto send = state.sends.extract(frame.tag);
    if (send.empty()) return state.grants.try_emplace(frame.tag, frame.bytes).second;
    Transmit(state, frame.tag, std::move(send.mapped()), frame.bytes);
    return true;
  }
  const auto receive = state.receives.find(frame.tag);
  if (receive == state.receives.end()) return false;
  const uint64_t wanted = receive->second.bytes;
  if (frame.kind == tcp::Frame::Kind::kRefuse) {
    Done done = std::move(receive->second.done);
    state.receives.erase(receive);
    End(std::move(done), SizesDiffer(state.peer, frame.tag, frame.bytes, wanted));
    return true;
  }
  if (frame.kind != tcp::Frame::Kind::kData || frame.bytes != wanted) return false;
  state.arriving = frame.tag;
  body = std::move(receive->second.runs);
  if (wanted == 0) OnBody(peer);
  return true;
}

void TcpGroup::OnBody(int peer) {
  PeerState& state = peers_[peer];
  auto received = state.receives.extract(state.arriving);
  REMESH_CHECK(!received.empty());
  End(std::move(received.mapped().done), absl::OkStatus());
}

void TcpGroup::OnLost(int peer, std::string_view why) {
  PeerState& state = peers_[peer];
  if (!aborted_ && state.lost.ok()) Drop(state, PeerLost(state.peer, why));
}

void TcpGroup::Drop(PeerState& state, const absl::Status& status) {
  state.lost = status;
  for (TcpConnection** connection : {&state.dialled, &state.accepted}) {
    if (*connection != nullptr) transport_->Close(std::exchange(*connection, nullptr));
  }
  for (auto& [tag, outgoing] : std::exchange(state.sends, {}))
    End(std::move(outgoing.done), status);
  for (auto& [tag, done] : std::exchange(state.being_sent, {})) End(std::move(done), status);
  for (auto& [tag, incoming] : std::exchange(state.receives, {}))
    End(std::move(incoming.done), status);
  state.grants.clear();
}

void TcpGroup::Abort() {
  if (std::exchange(aborted_, true)) return;
  for (PeerState& state : peers_) Drop(state, absl::CancelledError("the peer group was aborted"));
  transport_->OnAborted(this);
}

}  // namespace remesh::worker
