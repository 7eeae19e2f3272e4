// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/attempt_connections.h"

#include <utility>

#include "base/status_macros.h"
#include "server/controller/executions/attempt_peers.h"
#include "server/controller/membership/data_addresses.h"

namespace remesh::server {

absl::StatusOr<PeerTable> AttemptConnections::Connect(const std::string& execution,
                                                      const ExecutionSpec& spec, Moment now,
                                                      Outbox& out) {
  RETURN_IF_ERROR(CheckEncrypts(options_.encrypts_data, HostsOf(spec), workers_));
  std::vector<v1::PeerEntry> peers = MakePeers(spec, workers_, random_, options_.encrypts_data);
  Communicators::Named named;
  if (Communicators::Serve(peers, ReceiversOf(spec)))
    named = communicators_.Name(execution, peers, now.steady, random_);
  SendDrops(named.drops, out);
  return PeerTable(std::move(peers), spec.exchanges, TakeShortPrepare(spec, workers_),
                   std::move(named.communicators));
}

void AttemptConnections::OnHostAway(const std::string& host, Outbox& out) {
  SendDrops(communicators_.OnHostAway(host), out);
}

void AttemptConnections::SendDrops(const std::vector<Communicators::Drop>& drops,
                                   Outbox& out) const {
  for (const Communicators::Drop& drop : drops) {
    v1::AttachResponse message;
    message.mutable_drop_communicators()->set_name(drop.name);
    commands_.Send(drop.host, std::move(message), out);
  }
}

}  // namespace remesh::server
