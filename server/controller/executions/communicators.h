// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/values/controller_options.h"

namespace remesh::server {

// The NCCL communicators that this leader has named, and which of them hosts keep idle. A host
// keeps at most the communicators named to it last, so this table matches what hosts have. A set is
// used again only if every host has reported keeping it after the execution that used it last;
// after a failed execution no host reports that. Nothing here is durable: without it, communicators
// are made again.
class Communicators {
 public:
  // A set that a host must drop, because another of its hosts no longer has it.
  struct Drop {
    std::string host;
    std::string name;
  };
  struct Named {
    v1::Communicators communicators;  // empty unless several hosts have NCCL
    std::vector<Drop> drops;          // for hosts that take no part
  };

  // Names communicators of the hosts that have NCCL, for an execution that starts now.
  Named Name(const std::string& execution, const std::vector<v1::PeerEntry>& peers, Timestamp now,
             const RandomBits& random);
  // Whether such a host is among `receivers`, by index in `peers`. If none is, NCCL has nothing to
  // carry, and communicators need no name.
  static bool Serve(const std::vector<v1::PeerEntry>& peers, const std::vector<bool>& receivers);
  void OnCommitted(const std::string& execution, const std::string& host,
                   const v1::KeptCommunicators& kept, Timestamp now);
  std::vector<Drop> OnHostAway(const std::string& host);

 private:
  struct Set {
    std::string among;      // the hosts' incarnations and numbers of devices
    std::string execution;  // that uses them now or used them last
    std::set<std::string> hosts;
    std::set<std::string> kept_by;  // since that execution
    Timestamp until{0};             // end of reuse; counts once a host keeps them
  };
  std::vector<Drop> Erase(const std::string& name);

  std::map<std::string, Set> sets_;          // by name
  std::map<std::string, std::string> last_;  // by host: the set last named to it
};

}  // namespace remesh::server
