// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/authorization.h"

namespace remesh::server {

// What a SPIFFE id may be: spiffe://DOMAIN/viewer/..., /job/JOB/..., /worker/HOST, /admin/....
enum class Role { kViewer, kJob, kWorker, kAdmin };

struct RoleOfPeer {
  Role role = Role::kViewer;
  std::string name;  // JOB or HOST; a worker's "any": its certificate does not say which host it is
};

// PERMISSION_DENIED (NO_ROLE) saying what is wrong with the id.
absl::StatusOr<RoleOfPeer> RoleOf(std::string_view id, std::string_view trust_domain);

// HOST of a worker's id, "" of any other and of "any".
std::string WorkerOf(std::string_view id);

// Whether it is the id of a worker, of any host.
bool IsWorker(std::string_view id);

// Who may call a method. What is about a job or a host, those of another one never may.
struct MethodRule {
  const char* service;  // "StateService"
  const char* method;
  std::vector<Role> roles;  // none: it is served on no port, only on a host's Unix socket
  // A job may call it only for itself by name, not for all jobs or none.
  bool of_a_job = false;
};

// Every method of every service, but for health and reflection, which any authenticated peer may
// call. What is not here, nobody may.
const std::vector<MethodRule>& MethodRules();

// Whether the method changes nothing that others rely on: a viewer may call it, or it asks for a
// plan. Of a name alone, such as "GetPlan".
bool IsRead(std::string_view method);

// By the table. PERMISSION_DENIED (NO_ROLE, ROLE_DENIED) names identity and method, and to a
// job that lists more than its own the parent that it may list. An Attach
// without a host is asked before the worker has said which one it is.
service::Authorizer AuthorizeByRole(std::string trust_domain);

}  // namespace remesh::server
