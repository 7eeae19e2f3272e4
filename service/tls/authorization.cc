// SPDX-License-Identifier: Apache-2.0
#include "service/tls/authorization.h"

#include <memory>

namespace remesh::service {

Authorizer AllowAll() {
  return [](const Identity&, const Resource&, std::string_view) { return absl::OkStatus(); };
}

Identity IdentityOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) return {};
  // Set when the certificate has exactly one URI, which is a SPIFFE id. A common name does not
  // count, because CAs let anyone choose it.
  const auto ids = auth->FindPropertyValues("peer_spiffe_id");
  if (ids.size() != 1) return {};
  return {.name = std::string(ids[0].data(), ids[0].size())};
}

std::string JobOf(std::string_view resource_name) { return ResourceOf(resource_name).job; }

std::string NameOf(const Resource& resource) {
  if (!resource.job.empty()) return "jobs/" + resource.job;
  return resource.host.empty() ? "" : "workers/" + resource.host;
}

Resource ResourceOf(std::string_view resource_name) {
  constexpr std::string_view kJobs = "jobs/", kWorkers = "workers/";
  const auto segment_after = [&](std::string_view prefix) {
    const std::string_view rest = resource_name.substr(prefix.size());
    return std::string(rest.substr(0, rest.find('/')));
  };
  if (resource_name.starts_with(kJobs)) return {.job = segment_after(kJobs)};
  if (resource_name.starts_with(kWorkers)) return {.host = segment_after(kWorkers)};
  return {};
}

}  // namespace remesh::service
