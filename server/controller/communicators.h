// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/controller_options.h"

namespace remesh::server {

// The NCCL communicators that this leader has named, and which of them hosts keep idle. A host keeps
// those at most that were named to it last, so that what is known here is what is there. Only those
// are used again that every host has kept from the execution that used them last: from one that
// failed nobody says so. Nothing of it is durable: without it communicators are made anew.
class Communicators {
 public:
  // Hosts that still keep what the others of them have lost.
  struct Drop {
    std::string host;
    std::string name;
  };
  struct Named {
    v1::Communicators communicators;  // empty where not all have NCCL, or there is but one host
    std::vector<Drop> drops;          // of hosts that take no part
  };

  // For an execution that starts now.
  Named Name(const std::string& execution, const std::vector<v1::PeerEntry>& peers, Timestamp now,
             const RandomBits& random);
  void OnCommitted(const std::string& execution, const std::string& host,
                   const v1::KeptCommunicators& kept, Timestamp now);
  std::vector<Drop> OnHostAway(const std::string& host);

 private:
  struct Set {
    std::string among;      // which lives of which hosts, with how many devices
    std::string execution;  // that uses them, or did last
    std::set<std::string> hosts;
    std::set<std::string> kept_by;  // since that execution
    Timestamp until{0};             // they may be named again; counts once a host keeps them
  };
  std::vector<Drop> Erase(const std::string& name);

  std::map<std::string, Set> sets_;          // by name
  std::map<std::string, std::string> last_;  // named to a host
};

}  // namespace remesh::server
