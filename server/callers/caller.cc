// SPDX-License-Identifier: Apache-2.0
#include "server/callers/caller.h"

#include "absl/strings/str_cat.h"
#include "service/front/connection_table.h"
#include "service/tls/authorization.h"

namespace remesh::server {
namespace {

constexpr std::string_view kIpv4 = "ipv4:";
constexpr std::string_view kIpv6 = "ipv6:";

// The address between the brackets, which gRPC spells %5B and %5D, without the interface's name.
std::string_view Inside(std::string_view host) {
  for (const std::string_view open : {"%5B", "["}) {
    if (host.starts_with(open)) host.remove_prefix(open.size());
  }
  return host.substr(0, host.find_first_of("%]"));
}

}  // namespace

std::string AddressOfPeer(std::string_view peer) {
  const bool is_ipv6 = peer.starts_with(kIpv6);
  if (!is_ipv6 && !peer.starts_with(kIpv4)) return std::string(peer);
  std::string_view host = peer.substr(kIpv4.size());
  host = host.substr(0, host.rfind(':'));
  return is_ipv6 ? service::NetworkOfIpv6(std::string(Inside(host))) : std::string(host);
}

std::string CallerOf(const grpc::ServerContextBase& context) {
  const service::Identity identity = service::IdentityOf(context);
  if (!identity.name.empty()) return absl::StrCat("identity ", identity.name);
  return absl::StrCat("peer ", AddressOfPeer(context.peer()));
}

std::string CallerOfState(std::string_view state) {
  return absl::StrCat("job ", service::JobOf(state));
}

}  // namespace remesh::server
