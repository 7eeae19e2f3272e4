// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/ucx_transport.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/transport/accept_gate.h"
#include "worker/transport/peer_table.h"
#include "worker/transport/ucx_transport_impl.h"

namespace remesh::worker {
namespace {

constexpr size_t kClosedTokensMax = 4096;  // remembered, so that late comers are refused at once
constexpr auto kSetupPatience =
    std::chrono::milliseconds(200);  // in the destructor, for connections being set up
constexpr auto kClosingPoll = std::chrono::milliseconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> NewUcxTransport(const UcxOptions& options) {
  return UcxTransport::Create(options);
}

absl::StatusOr<std::unique_ptr<Transport>> UcxTransport::Create(const UcxOptions& options) {
  ASSIGN_OR_RETURN(const SocketAddress bind, MakeSocketAddress(options.bind_address, options.port));
  GuardAccepts();
  std::unique_ptr<UcxTransport> self(new UcxTransport(options));
  ASSIGN_OR_RETURN(self->worker_, UcxWorker::Create(options, bind));
  RETURN_IF_ERROR(self->SetHandler(ucx::kHello, OnHello));
  RETURN_IF_ERROR(self->SetHandler(ucx::kAccept, OnAccept));
  RETURN_IF_ERROR(self->SetHandler(ucx::kMessage, OnMessage));
  RETURN_IF_ERROR(self->SetHandler(ucx::kTaken, OnTaken));
  RETURN_IF_ERROR(self->Listen(bind));
  return self;
}

absl::Status UcxTransport::SetHandler(ucx::Id id, ucp_am_recv_callback_t handler) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.cb = handler;
  param.arg = this;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_->get(), &param);
  return status == UCS_OK ? absl::OkStatus() : UcxError("setting a UCX handler", status);
}

absl::Status UcxTransport::Listen(const SocketAddress& bind) {
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = {bind.get(), bind.length};
  params.conn_handler = {OnConnectionRequest, this};
  ucs_status_t status = ucp_listener_create(worker_->get(), &params, &listener_);
  if (status != UCS_OK) {
    return UcxError(absl::StrCat("listening on ", FormatSocketAddress(bind)), status);
  }
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  status = ucp_listener_query(listener_, &attributes);
  if (status != UCS_OK) return UcxError("asking for the port", status);
  SocketAddress bound = bind;
  bound.storage = attributes.sockaddr;
  address_ = FormatSocketAddress(bound);
  return absl::OkStatus();
}

UcxTransport::~UcxTransport() {
  REMESH_CHECK(groups_.empty());
  if (worker_ == nullptr) return;
  for (auto& [key, connection] : connections_) Close(connection.get());
  const auto give_up = std::chrono::steady_clock::now() + kSetupPatience;
  while (!connections_.empty()) {
    ucp_worker_progress(worker_->get());
    HandleFailures();
    FinishClosing();
    if (std::chrono::steady_clock::now() < give_up) continue;
    for (auto& [key, connection] : connections_) {
      if (!connection->closing) StartClosing(connection.get());
    }
  }
  for (ucp_conn_request_h request : requests_) ucp_listener_reject(listener_, request);
  // Destroyed last, with the worker right after it: UCX 1.13's own thread still looks at the
  // listener when something arrives on one of its half-open connections.
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
  worker_.reset();
}

absl::StatusOr<std::unique_ptr<PeerGroup>> UcxTransport::Open(int self, std::vector<Peer> peers) {
  RETURN_IF_ERROR(ValidatePeerTable(self, peers));
  ASSIGN_OR_RETURN(std::vector<SocketAddress> addresses, AddressesOf(peers));
  auto group = std::make_unique<UcxGroup>(this, self, std::move(peers), std::move(addresses));
  REMESH_CHECK(groups_.try_emplace(group->token(), group.get()).second);
  for (auto& [key, connection] : connections_) {
    if (connection->hello_received && connection->group == nullptr) {
      introductions_.push_back(connection.get());
    }
  }
  worker_->Wake();  // the introductions are work
  return group;
}

void UcxTransport::Forget(const UcxGroup& group) {
  groups_.erase(group.token());
  if (!closed_.insert(group.token()).second) return;
  closed_order_.push_back(group.token());
  if (closed_order_.size() <= kClosedTokensMax) return;
  closed_.erase(closed_order_.front());
  closed_order_.pop_front();
}

bool UcxTransport::Progress() {
  bool any = ucp_worker_progress(worker_->get()) != 0;
  any |= AcceptConnections();
  any |= CloseStrangers();
  any |= HandleFailures();
  any |= FinishClosing();
  any |= RunCallbacks();
  return any;
}

void UcxTransport::Wait(std::chrono::milliseconds timeout) {
  const bool work =
      !ended_.empty() || !failures_.empty() || !introductions_.empty() || !requests_.empty();
  if (work) timeout = std::chrono::milliseconds(0);
  if (strangers_ > 0) timeout = std::min(timeout, kStrangersLook);
  // UCX signals no event when a close ends.
  if (!closing_.empty()) timeout = std::min(timeout, kClosingPoll);
  worker_->Wait(timeout);
}

bool UcxTransport::HandleFailures() {
  if (failures_.empty() && introductions_.empty()) return false;
  for (UcxConnection* connection : std::exchange(introductions_, {})) Introduce(connection);
  for (const Failure& failure : std::exchange(failures_, {})) {
    UcxConnection* connection = failure.connection;
    connection->connected = true;
    if (connection->closing) continue;
    if (connection->close_wanted) {
      StartClosing(connection);
      continue;
    }
    if (connection->group != nullptr) {
      connection->group->OnConnectionLost(connection, ucs_status_string(failure.status));
    }
    Close(connection);
  }
  return true;
}

void UcxTransport::Introduce(UcxConnection* connection) {
  if (connection->closing || connection->group != nullptr) return;
  const AttemptToken to(connection->hello.to, kAttemptTokenBytes);
  const AttemptToken from(connection->hello.from, kAttemptTokenBytes);
  const auto it = groups_.find(to);
  if (it == groups_.end()) {
    if (closed_.contains(to)) Close(connection);
    return;  // the group may open yet
  }
  if (it->second->OnHello(connection, from)) {
    --strangers_;
  } else {
    Close(connection);
  }
}

bool UcxTransport::RunCallbacks() {
  std::deque<Ended> ended = std::exchange(ended_, {});
  for (Ended& end : ended) {
    end.operation->group->OnCallback();
    end.operation->done(std::move(end.status));  // may destroy the group
  }
  return !ended.empty();
}

void UcxTransport::End(std::unique_ptr<UcxOperation> operation, absl::Status status) {
  ended_.push_back({std::move(operation), std::move(status)});
}

}  // namespace remesh::worker
