// SPDX-License-Identifier: Apache-2.0
// UcxTransport's connections: how they are made and closed, and what arrives on them.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/transport/ucx_transport_impl.h"

namespace remesh::worker {
namespace {

constexpr int kStrangersMax = 1024;  // connections that have shown no token of an open group
constexpr auto kHelloPatience = std::chrono::seconds(5);   // for a hello
constexpr auto kGroupPatience = std::chrono::seconds(60);  // for the group to open

}  // namespace

UcxConnection* UcxTransport::AddConnection(ucp_ep_params_t params) {
  auto connection = std::make_unique<UcxConnection>();
  connection->transport = this;
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {OnError, connection.get()};
  if (ucp_ep_create(worker_->get(), &params, &connection->endpoint) != UCS_OK) return nullptr;
  UcxConnection* added = connection.get();
  open_[added->endpoint] = added;
  connections_[added] = std::move(connection);
  return added;
}

UcxConnection* UcxTransport::Dial(UcxGroup* group, int peer, const SocketAddress& address,
                                  const ucx::Hello& hello) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr = {address.get(), address.length};
  UcxConnection* connection = AddConnection(params);
  if (connection == nullptr) return nullptr;
  connection->dialled = true;
  connection->group = group;
  connection->peer = peer;
  connection->hello = hello;
  SendControl(connection, ucx::kHello, &connection->hello, sizeof(connection->hello));
  return connection;
}

void UcxTransport::SendControl(UcxConnection* connection, ucx::Id id, const void* header,
                               size_t length) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = OnControlSent;
  param.user_data = connection;
  param.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  void* request = ucp_am_send_nbx(connection->endpoint, id, header, length, nullptr, 0, &param);
  if (!UCS_PTR_IS_PTR(request)) OnControlSent(nullptr, UCS_PTR_STATUS(request), connection);
}

void UcxTransport::OnControlSent(void* request, ucs_status_t status, void* user_data) {
  if (request != nullptr) ucp_request_free(request);
  auto* connection = static_cast<UcxConnection*>(user_data);
  connection->connected = true;
  if (status != UCS_OK || connection->close_wanted) Fail(connection, status);
}

void UcxTransport::OnConnectionRequest(ucp_conn_request_h request, void* self) {
  static_cast<UcxTransport*>(self)->requests_.push_back(request);
}

bool UcxTransport::AcceptConnections() {
  if (requests_.empty()) return false;
  for (ucp_conn_request_h request : std::exchange(requests_, {})) {
    if (strangers_ >= kStrangersMax) {
      ucp_listener_reject(listener_, request);
      continue;
    }
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    UcxConnection* connection = AddConnection(params);
    if (connection == nullptr) continue;
    connection->connected = true;  // the client has what it needs
    connection->accepted = std::chrono::steady_clock::now();
    ++strangers_;
  }
  return true;
}

bool UcxTransport::CloseStrangers() {
  if (strangers_ == 0) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_at_strangers_) return false;
  next_look_at_strangers_ = now + kStrangersLook;
  for (auto& [key, connection] : connections_) {
    if (connection->dialled || connection->group != nullptr) continue;
    const auto patience = connection->hello_received ? kGroupPatience : kHelloPatience;
    if (now - connection->accepted > patience) Close(connection.get());
  }
  return true;
}

void UcxTransport::Close(UcxConnection* connection) {
  if (connection->closing || connection->close_wanted) return;
  if (connection->group == nullptr) --strangers_;
  if (connection->connected) return StartClosing(connection);
  connection->close_wanted = true;
  connection->group->OnClosed();
  connection->group = nullptr;
}

void UcxTransport::StartClosing(UcxConnection* connection) {
  connection->closing = true;
  open_.erase(connection->endpoint);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(connection->endpoint, &param);
  // UCX has closed it at once, or has failed and released everything: it is closed either way.
  connection->close_request = UCS_PTR_IS_PTR(request) ? request : nullptr;
  closing_.push_back(connection);
}

bool UcxTransport::FinishClosing() {
  const auto closed = std::partition(closing_.begin(), closing_.end(), [](UcxConnection* c) {
    return c->close_request != nullptr &&
           ucp_request_check_status(c->close_request) == UCS_INPROGRESS;
  });
  const std::vector<UcxConnection*> gone(closed, closing_.end());
  closing_.erase(closed, closing_.end());
  for (UcxConnection* connection : gone) {
    if (connection->close_request != nullptr) ucp_request_free(connection->close_request);
    for (void* descriptor : connection->unread) ucp_am_data_release(worker_->get(), descriptor);
    if (connection->group != nullptr) connection->group->OnClosed();
    std::erase_if(failures_, [&](const Failure& f) { return f.connection == connection; });
    std::erase(introductions_, connection);
    connections_.erase(connection);
  }
  return !gone.empty();
}

void UcxTransport::OnError(void* connection, ucp_ep_h, ucs_status_t status) {
  Fail(static_cast<UcxConnection*>(connection), status);
}

void UcxTransport::Fail(UcxConnection* connection, ucs_status_t status) {
  connection->transport->failures_.push_back({connection, status});
}

UcxConnection* UcxTransport::Find(const ucp_am_recv_param_t* param) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) return nullptr;
  const auto it = open_.find(param->reply_ep);
  return it == open_.end() || it->second->close_wanted ? nullptr : it->second;
}

ucs_status_t UcxTransport::OnHello(void* self, const void* header, size_t header_length, void*,
                                   size_t, const ucp_am_recv_param_t* param) {
  auto* transport = static_cast<UcxTransport*>(self);
  UcxConnection* connection = transport->Find(param);
  if (connection == nullptr) return UCS_OK;
  const auto hello = ucx::ParseHeader<ucx::Hello>(header, header_length);
  const bool expected = !connection->dialled && !connection->hello_received;
  if (!expected || !hello.has_value() || hello->magic != ucx::Hello::kMagic) {
    Fail(connection, UCS_ERR_REJECTED);
    return UCS_OK;
  }
  connection->hello = *hello;
  connection->hello_received = true;
  transport->introductions_.push_back(connection);
  return UCS_OK;
}

ucs_status_t UcxTransport::OnAccept(void* self, const void*, size_t, void*, size_t,
                                    const ucp_am_recv_param_t* param) {
  UcxConnection* connection = static_cast<UcxTransport*>(self)->Find(param);
  if (connection == nullptr) return UCS_OK;
  if (connection->dialled && !connection->ready) {
    connection->group->OnAccept(connection);
  } else {
    Fail(connection, UCS_ERR_REJECTED);
  }
  return UCS_OK;
}

ucs_status_t UcxTransport::OnTaken(void* self, const void*, size_t, void*, size_t,
                                   const ucp_am_recv_param_t* param) {
  UcxConnection* connection = static_cast<UcxTransport*>(self)->Find(param);
  if (connection == nullptr) return UCS_OK;
  if (connection->dialled && connection->ready) {
    connection->group->OnTaken(connection);
  } else {
    Fail(connection, UCS_ERR_REJECTED);
  }
  return UCS_OK;
}

ucs_status_t UcxTransport::OnMessage(void* self, const void* header, size_t header_length,
                                     void* data, size_t length, const ucp_am_recv_param_t* param) {
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  UcxConnection* connection = static_cast<UcxTransport*>(self)->Find(param);
  const ucs_status_t refusal = rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  if (connection == nullptr) return refusal;
  const auto tag = ucx::ParseHeader<MessageTag>(header, header_length);
  if (connection->dialled || !connection->ready || !tag.has_value()) {
    Fail(connection, UCS_ERR_REJECTED);
    return refusal;
  }
  return connection->group->OnMessage(connection, *tag, data, length, rendezvous);
}

}  // namespace remesh::worker
