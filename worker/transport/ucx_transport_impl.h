// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/text/transport_names.h"
#include "worker/transport/ucx_connection.h"
#include "worker/transport/ucx_group.h"
#include "worker/transport/ucx_worker.h"

namespace remesh::worker {

// Owns the listener and every connection. UCX's callbacks only record events. Progress() acts on
// them once UCX has returned, because inside UCX endpoints must not be made or closed, and
// callbacks of operations must not run.
class UcxTransport : public Transport {
 public:
  static absl::StatusOr<std::unique_ptr<Transport>> Create(const UcxOptions& options);
  ~UcxTransport() override;

  std::string_view name() const override { return kUcxTransport; }
  std::string address() const override { return address_; }
  absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) override;
  bool Progress() override;
  void Wait(std::chrono::milliseconds timeout) override;
  void Wake() override { worker_->Wake(); }

  // For groups.
  const UcxOptions& options() const { return options_; }
  ucp_worker_h worker() const { return worker_->get(); }
  // Null if UCX refuses at once.
  UcxConnection* Dial(UcxGroup* group, int peer, const SocketAddress& address,
                      const ucx::Hello& hello);
  // Starts to close the connection, which is gone after the Progress() that ends it. Idempotent.
  // UCX 1.13 stops the process when an endpoint is closed while it is being set up. So a connection
  // that has only been dialled, and has carried nothing but the hello, leaves its group at once and
  // closes when it can.
  void Close(UcxConnection* connection);
  // Queues the operation's callback.
  void End(std::unique_ptr<UcxOperation> operation, absl::Status status);
  void Forget(const UcxGroup& group);
  // Closes the connection, and reports its peer as lost, once UCX has returned.
  static void Fail(UcxConnection* connection, ucs_status_t status);

  // An active message without data.
  static void SendControl(UcxConnection* connection, ucx::Id id, const void* header, size_t length);

 private:
  struct Failure {
    UcxConnection* connection;
    ucs_status_t status;
  };
  struct Ended {
    std::unique_ptr<UcxOperation> operation;
    absl::Status status;
  };

  explicit UcxTransport(const UcxOptions& options) : options_(options) {}

  absl::Status Listen(const SocketAddress& bind);
  absl::Status SetHandler(ucx::Id id, ucp_am_recv_callback_t handler);
  UcxConnection* AddConnection(ucp_ep_params_t params);
  UcxConnection* Find(const ucp_am_recv_param_t* param);

  // Called by UCX.
  static void OnConnectionRequest(ucp_conn_request_h request, void* self);
  static void OnError(void* connection, ucp_ep_h endpoint, ucs_status_t status);
  static void OnControlSent(void* request, ucs_status_t status, void* connection);
  static ucs_status_t OnHello(void* self, const void* header, size_t header_length, void* data,
                              size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnAccept(void* self, const void* header, size_t header_length, void* data,
                               size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnTaken(void* self, const void* header, size_t header_length, void* data,
                              size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnMessage(void* self, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param);

  bool AcceptConnections();
  // Closes connections that should have shown a token long ago.
  bool CloseStrangers();
  void StartClosing(UcxConnection* connection);
  // Gives a received hello to its group, if the group is open.
  void Introduce(UcxConnection* connection);
  bool HandleFailures();
  bool FinishClosing();
  bool RunCallbacks();

  const UcxOptions options_;
  std::string address_;
  std::unique_ptr<UcxWorker> worker_;
  ucp_listener_h listener_ = nullptr;
  absl::flat_hash_map<UcxConnection*, std::unique_ptr<UcxConnection>> connections_;
  absl::flat_hash_map<ucp_ep_h, UcxConnection*>
      open_;  // not closing: UCX uses the handles of closed endpoints again
  absl::flat_hash_map<AttemptToken, UcxGroup*> groups_;
  absl::flat_hash_set<AttemptToken> closed_;  // of groups that were open here
  std::deque<AttemptToken> closed_order_;
  static constexpr std::chrono::milliseconds kStrangersLook{1000};
  int strangers_ = 0;  // connections that no group knows
  std::chrono::steady_clock::time_point next_look_at_strangers_;
  std::vector<ucp_conn_request_h> requests_;
  std::vector<Failure> failures_;
  std::vector<UcxConnection*> introductions_;
  std::vector<UcxConnection*> closing_;
  std::deque<Ended> ended_;
};

}  // namespace remesh::worker
