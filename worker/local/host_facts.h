// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "remesh/v1/local.pb.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::worker {

// How trainers of the host reach the server.
struct AdvertisedServer {
  std::string address;          // HOST:PORT
  std::string tls_server_name;  // see GetHostResponse
};

// What trainers may know of their host before they know any state. Not thread-safe.
class HostFacts {
 public:
  HostFacts() = default;
  // `identity` has the name of the host and its devices, with id -1 where the planner assigns it.
  HostFacts(const v1::Register& identity, const AdvertisedServer& server);

  void OnWelcome(const v1::Welcome& welcome);
  void OnDisconnected() { facts_.set_attached(false); }

  // Whether the worker has been attached once.
  bool welcomed() const { return welcomed_; }
  const v1::GetHostResponse& facts() const { return facts_; }

 private:
  v1::GetHostResponse facts_;
  bool welcomed_ = false;
};

}  // namespace remesh::worker
