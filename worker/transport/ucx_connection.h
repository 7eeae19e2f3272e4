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
// hosts has its own, which the sending side dials.
struct UcxConnection {
  UcxTransport* transport = nullptr;
  ucp_ep_h endpoint = nullptr;
  bool dialled = false;    // by this side
  bool connected = false;  // UCX has set it up, or has given up
  bool ready = false;      // the peer has accepted (dialled), or its hello was accepted (otherwise)
  bool close_wanted = false;  // to be closed once connected
  bool closing = false;
  void* close_request = nullptr;
  UcxGroup* group = nullptr;  // null until a hello names it, and for good after a refusal
  int peer = -1;
  ucx::Hello hello;  // sent, or received and waiting for its group
  bool hello_received = false;
  std::chrono::steady_clock::time_point accepted;  // unless dialled
  // Rendezvous descriptors, to be dropped only when the connection is closed: if they were dropped
  // before, UCX would tell the sender OK.
  std::vector<void*> unread;
};

// One Send() or Receive() under way.
struct UcxOperation {
  UcxGroup* group = nullptr;
  int peer = -1;
  MessageTag tag;              // UCX reads it while a send is under way
  std::byte* bytes = nullptr;  // only read when sending
  size_t size = 0;
  PeerGroup::Done done;
};

}  // namespace remesh::worker
