// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/error.h"

namespace remesh::server {

// Which links of an execution stall, by what its hosts say they wait for. A host that waits only
// because another waits in turn is not to blame, so a link counts if both of its ends are at it, or
// one is and the other waits to receive from no host. A value.
class StalledLinks {
 public:
  static constexpr size_t kNamedMax = 8;

  // What `host` reports, which replaces what it reported before: an error of reason LINK_STALLED
  // (see Quiesced in worker.proto), or anything else if it waits for no host.
  void Report(const std::string& host, const ErrorInfo& info);

  // "SENDER->RECEIVER", at most kNamedMax of them. Links to hosts that have reported nothing are
  // missing.
  std::set<std::string> Named() const;

 private:
  struct Waits {
    std::set<std::string> receives_from, sends_to;
  };

  std::map<std::string, Waits> hosts_;
};

}  // namespace remesh::server
