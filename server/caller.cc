// SPDX-License-Identifier: Apache-2.0
#include "server/caller.h"

#include "absl/strings/str_cat.h"
#include "service/authorization.h"

namespace remesh {

std::string WithoutPort(std::string_view peer) {
  const bool has_port = peer.starts_with("ipv4:") || peer.starts_with("ipv6:");
  return std::string(has_port ? peer.substr(0, peer.rfind(':')) : peer);
}

std::string CallerOf(const grpc::ServerContextBase& context) {
  const Identity identity = IdentityOf(context);
  if (!identity.name.empty()) return absl::StrCat("identity ", identity.name);
  return absl::StrCat("peer ", WithoutPort(context.peer()));
}

std::string CallerOfState(std::string_view state) { return absl::StrCat("job ", JobOf(state)); }

}  // namespace remesh
