// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <vector>

#include "worker/transport/transport.h"
#include "worker/transport/ucx_wire.h"

namespace remesh::worker {

class UcxGroup;
class UcxTransport;

// One endpoint, from its creation until UCX has closed it. Each direction of traffic between two
// hosts has its own, dialled by the side that sends.
// What UCX has to be told and asked of each connection: it has more than 12 fields.
struct UcxConnection {
  UcxTransport* transport = nullptr;
  ucp_ep_h endpoint = nullptr;
  bool dialled = false;       // by this side
  bool connected = false;     // UCX has set it up, or has given up
  bool ready = false;         // dialled: the peer has accepted; otherwise: its hello was
  bool close_wanted = false;  // once connected
  bool closing = false;
  void* close_request = nullptr;
  UcxGroup* group = nullptr;  // null until a hello has told which, and for good after a refusal
  int peer = -1;
  ucx::Hello hello;  // sent, or received and waiting for its group
  bool hello_received = false;
  std::chrono::steady_clock::time_point accepted;  // unless dialled
  std::vector<void*> unread;  // rendezvous descriptors to be dropped when it is closed: before, the
                              // sender would be told OK
};

// One Send() or Receive() on its way.
struct UcxOperation {
  UcxGroup* group = nullptr;
  int peer = -1;
  MessageTag tag;              // on the wire while a send is
  std::byte* bytes = nullptr;  // only read when sending
  size_t size = 0;
  PeerGroup::Done done;
};

}  // namespace remesh::worker
