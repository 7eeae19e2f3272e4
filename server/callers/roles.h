// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/tls/authorization.h"

namespace remesh::server {

// The role in a SPIFFE id: spiffe://DOMAIN/viewer/NAME, /job/JOB/NAME, /worker/HOST, /admin/NAME.
enum class Role { kViewer, kJob, kWorker, kAdmin };

struct RoleOfPeer {
  Role role = Role::kViewer;
  std::string name;  // JOB or HOST; "any" for a worker whose certificate names no host
};

// PERMISSION_DENIED (NO_ROLE) says what is wrong with the id. An id with more or fewer segments
// than these, or with characters that SPIFFE does not allow, has no role.
absl::StatusOr<RoleOfPeer> RoleOf(std::string_view id, std::string_view trust_domain);

// HOST of a worker's id; "" for any other id and for "any".
std::string WorkerOf(std::string_view id);

// Whether `id` is a worker's, of any host.
bool IsWorker(std::string_view id);

// Who may call a method. A peer of one job or host may never call it for another job or host.
struct MethodRule {
  const char* service;  // "StateService"
  const char* method;
  std::vector<Role> roles;  // none: no port serves it, only a host's Unix socket does
  // Whether a job must name itself in the call: a call for all jobs, or for none, is denied.
  bool of_a_job = false;
};

// Every method of every service except health and reflection, which any authenticated peer may
// call. No one may call a method that is missing here.
const std::vector<MethodRule>& MethodRules();

// Whether the method changes nothing that others rely on: a viewer may call it, or it asks for a
// plan, or members of one world call it among themselves. `method` is the name alone, such as
// "GetPlan".
bool IsRead(std::string_view method);

// Authorizes by MethodRules(). PERMISSION_DENIED (NO_ROLE, ROLE_DENIED) names identity and method,
// and tells a job that lists more than its own resources which parent it may list. An Attach is
// first checked without a host, before the worker has named its own.
service::Authorizer AuthorizeByRole(std::string trust_domain);

}  // namespace remesh::server
