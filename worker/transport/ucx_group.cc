// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/ucx_group.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/transport/peer_table.h"
#include "worker/transport/ucx_transport_impl.h"

namespace remesh::worker {
namespace {

absl::Status Aborted() { return absl::CancelledError("the peer group was aborted"); }

std::unique_ptr<UcxOperation> TakeOperation(void* user_data) {
  return std::unique_ptr<UcxOperation>(static_cast<UcxOperation*>(user_data));
}

void OnSent(void* request, ucs_status_t status, void* user_data) {
  ucp_request_free(request);
  auto operation = TakeOperation(user_data);
  UcxGroup* group = operation->group;
  group->OnTransferred(std::move(operation), status);
}

void OnFetched(void* request, ucs_status_t status, size_t, void* user_data) {
  OnSent(request, status, user_data);
}

}  // namespace

UcxGroup::UcxGroup(UcxTransport* transport, int self, std::vector<Peer> peers,
                   std::vector<SocketAddress> addresses)
    : transport_(transport), self_(self), peers_(peers.size()) {
  for (size_t i = 0; i < peers.size(); ++i) {
    peer_of_token_[peers[i].token] = static_cast<int>(i);
    peers_[i].peer = std::move(peers[i]);
    peers_[i].address = addresses[i];
  }
}

UcxGroup::~UcxGroup() { REMESH_CHECK(quiesced()); }

UcxGroup::Operation UcxGroup::Begin(int peer, const MessageTag& tag, std::byte* bytes, size_t size,
                                    Done done) {
  REMESH_CHECK(peer >= 0 && static_cast<size_t>(peer) < peers_.size());
  PeerState& state = peers_[peer];
  ++unfinished_;
  auto operation =
      std::make_unique<UcxOperation>(UcxOperation{this, peer, tag, bytes, size, std::move(done)});
  // A receiver dials, too: its own connection tells it when the peer dies.
  if (!aborted_ && state.lost.ok() && state.dialled == nullptr) {
    ucx::Hello hello;
    std::memcpy(hello.to, state.peer.token.data(), sizeof(hello.to));
    std::memcpy(hello.from, token().data(), sizeof(hello.from));
    state.dialled = transport_->Dial(this, peer, state.address, hello);
    if (state.dialled != nullptr) {
      ++connections_;
    } else {
      Drop(state, PeerLost(state.peer, "it cannot be dialled"));
    }
  }
  if (!aborted_ && state.lost.ok()) return operation;
  End(std::move(operation), aborted_ ? Aborted() : state.lost);
  return nullptr;
}

void UcxGroup::Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) {
  // Nothing is written through the pointer: Transmit() reads.
  auto* bytes = const_cast<std::byte*>(data.data());
  Operation operation = Begin(peer, tag, bytes, data.size(), std::move(done));
  if (operation == nullptr) return;
  if (peers_[peer].dialled->ready) {
    Transmit(std::move(operation));
  } else {
    peers_[peer].waiting.push_back(std::move(operation));
  }
}

void UcxGroup::Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) {
  Operation operation = Begin(peer, tag, buffer.data(), buffer.size(), std::move(done));
  if (operation == nullptr) return;
  PeerState& state = peers_[peer];
  auto it = state.held.find(tag);
  if (it == state.held.end()) {
    REMESH_CHECK(state.receives.try_emplace(tag, std::move(operation)).second);
    return;
  }
  const Held held = std::move(it->second);
  state.held.erase(it);
  const auto* copied = std::get_if<std::vector<std::byte>>(&held);
  state.held_bytes -= ucx::CountedBytes(copied != nullptr ? copied->size() : 0);
  if (copied != nullptr) Take(state, copied->size());
  const size_t sent = copied != nullptr ? copied->size() : std::get<Descriptor>(held).size;
  if (sent != buffer.size()) {
    if (copied == nullptr)
      ucp_am_data_release(transport_->worker(), std::get<Descriptor>(held).data);
    End(std::move(operation), SizesDiffer(state.peer, tag, sent, buffer.size()));
  } else if (copied == nullptr) {
    Fetch(std::move(operation), std::get<Descriptor>(held).data);
  } else {
    if (sent > 0) std::memcpy(buffer.data(), copied->data(), sent);
    End(std::move(operation), absl::OkStatus());
  }
}

void UcxGroup::Abort() {
  if (aborted_) return;
  aborted_ = true;
  transport_->Forget(*this);
  for (PeerState& state : peers_) Drop(state, Aborted());
}

void UcxGroup::Transmit(Operation operation) {
  const UcxOptions& options = transport_->options();
  size_t& ahead = peers_[operation->peer].ahead_bytes;
  const size_t counted = ucx::CountedBytes(operation->size);
  // An empty message has nothing to fetch: UCX 1.13 would never free its descriptor.
  const bool rendezvous =
      static_cast<int64_t>(operation->size) > options.rendezvous_bytes ||
      (operation->size > 0 && ahead + counted > static_cast<size_t>(options.ahead_bytes_max));
  if (!rendezvous) ahead += counted;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = OnSent;
  param.user_data = operation.get();
  param.flags =
      UCP_AM_SEND_FLAG_REPLY | (rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER);
  void* request =
      ucp_am_send_nbx(peers_[operation->peer].dialled->endpoint, ucx::kMessage, &operation->tag,
                      sizeof(operation->tag), operation->bytes, operation->size, &param);
  Await(std::move(operation), request);
}

void UcxGroup::Fetch(Operation operation, void* descriptor) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = OnFetched;
  param.user_data = operation.get();
  void* request = ucp_am_recv_data_nbx(transport_->worker(), descriptor, operation->bytes,
                                       operation->size, &param);
  Await(std::move(operation), request);
}

void UcxGroup::Await(Operation operation, void* request) {
  if (UCS_PTR_IS_PTR(request)) {
    operation.release();  // the callback takes it
  } else {
    OnTransferred(std::move(operation), UCS_PTR_STATUS(request));
  }
}

void UcxGroup::OnTransferred(Operation operation, ucs_status_t status) {
  const PeerState& state = peers_[operation->peer];
  absl::Status end;
  if (status == UCS_ERR_INVALID_PARAM) {
    end = absl::InvalidArgumentError(absl::StrCat("peer ", state.peer.address,
                                                  " awaited the message with another size than ",
                                                  operation->size, " bytes"));
  } else if (status != UCS_OK) {
    end = aborted_ ? Aborted() : state.lost;
    if (end.ok()) end = PeerLost(state.peer, ucs_status_string(status));
  }
  End(std::move(operation), std::move(end));
}

void UcxGroup::End(Operation operation, absl::Status status) {
  transport_->End(std::move(operation), std::move(status));
}

bool UcxGroup::OnHello(UcxConnection* connection, const AttemptToken& from) {
  const auto it = peer_of_token_.find(from);
  if (it == peer_of_token_.end()) return false;
  PeerState& state = peers_[it->second];
  if (state.accepted != nullptr || !state.lost.ok()) return false;
  connection->group = this;
  connection->peer = it->second;
  connection->ready = true;
  state.accepted = connection;
  ++connections_;
  UcxTransport::SendControl(connection, ucx::kAccept, nullptr, 0);
  return true;
}

void UcxGroup::OnAccept(UcxConnection* connection) {
  PeerState& state = peers_[connection->peer];
  connection->ready = true;
  while (!state.waiting.empty()) {
    Operation operation = std::move(state.waiting.front());
    state.waiting.pop_front();
    Transmit(std::move(operation));
  }
}

ucs_status_t UcxGroup::OnMessage(UcxConnection* connection, const MessageTag& tag, void* data,
                                 size_t size, bool rendezvous) {
  PeerState& state = peers_[connection->peer];
  const auto it = state.receives.find(tag);
  if (it == state.receives.end()) return Hold(connection, tag, data, size, rendezvous);
  Operation operation = std::move(it->second);
  state.receives.erase(it);
  if (!rendezvous) Take(state, size);
  if (size != operation->size) {
    absl::Status differ = SizesDiffer(state.peer, tag, size, operation->size);
    End(std::move(operation), std::move(differ));
    return rendezvous ? UCS_ERR_INVALID_PARAM : UCS_OK;
  }
  if (rendezvous) {
    Fetch(std::move(operation), data);
    return UCS_INPROGRESS;
  }
  if (size > 0) std::memcpy(operation->bytes, data, size);
  End(std::move(operation), absl::OkStatus());
  return UCS_OK;
}

ucs_status_t UcxGroup::Hold(UcxConnection* connection, const MessageTag& tag, void* data,
                            size_t size, bool rendezvous) {
  PeerState& state = peers_[connection->peer];
  const size_t bytes = ucx::CountedBytes(rendezvous ? 0 : size);
  const auto limit = static_cast<size_t>(transport_->options().held_bytes_max);
  if (bytes > limit - state.held_bytes || state.held.contains(tag)) {
    UcxTransport::Fail(connection, UCS_ERR_EXCEEDS_LIMIT);
    return rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  }
  state.held_bytes += bytes;
  if (rendezvous) {
    state.held.emplace(tag, Descriptor{data, size});
    return UCS_INPROGRESS;
  }
  const auto* from = static_cast<const std::byte*>(data);
  state.held.emplace(tag, std::vector<std::byte>(from, from + size));
  return UCS_OK;
}

void UcxGroup::Take(PeerState& state, size_t size) {
  state.taken_bytes += ucx::CountedBytes(size);
  for (; state.taken_bytes >= ucx::kTakenBytes; state.taken_bytes -= ucx::kTakenBytes) {
    UcxTransport::SendControl(state.accepted, ucx::kTaken, nullptr, 0);
  }
}

void UcxGroup::OnTaken(UcxConnection* connection) {
  size_t& ahead = peers_[connection->peer].ahead_bytes;
  ahead -= std::min(ahead, ucx::kTakenBytes);
}

void UcxGroup::OnConnectionLost(UcxConnection* connection, std::string_view why) {
  PeerState& state = peers_[connection->peer];
  if (!aborted_ && state.lost.ok()) Drop(state, PeerLost(state.peer, why));
}

void UcxGroup::Drop(PeerState& state, const absl::Status& status) {
  if (state.lost.ok()) state.lost = status;
  for (Operation& operation : state.waiting) End(std::move(operation), status);
  state.waiting.clear();
  for (auto& [tag, operation] : state.receives) End(std::move(operation), status);
  state.receives.clear();
  for (auto& [tag, held] : state.held) {
    const auto* descriptor = std::get_if<Descriptor>(&held);
    if (descriptor != nullptr) state.accepted->unread.push_back(descriptor->data);
  }
  state.held.clear();
  state.held_bytes = 0;
  // The operations that UCX still has end while the connections close.
  for (UcxConnection* connection : {state.dialled, state.accepted}) {
    if (connection != nullptr) transport_->Close(connection);
  }
  state.dialled = state.accepted = nullptr;
}

}  // namespace remesh::worker
