// SPDX-License-Identifier: Apache-2.0
#include "service/authorization.h"

#include <memory>

namespace remesh {

Authorizer AllowAll() {
  return [](const Identity&, std::string_view, std::string_view) { return absl::OkStatus(); };
}

Identity IdentityOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) return {};
  for (const char* property : {"peer_spiffe_id", "x509_common_name"}) {
    const auto values = auth->FindPropertyValues(property);
    if (!values.empty()) return {.name = std::string(values[0].data(), values[0].size())};
  }
  return {};
}

std::string JobOf(std::string_view resource_name) {
  constexpr std::string_view kPrefix = "jobs/";
  if (resource_name.substr(0, kPrefix.size()) != kPrefix) return "";
  resource_name.remove_prefix(kPrefix.size());
  return std::string(resource_name.substr(0, resource_name.find('/')));
}

}  // namespace remesh
