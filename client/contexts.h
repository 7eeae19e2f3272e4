// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/certificates.h"

namespace remesh::client {

// A named server, and how to call it.
struct Context {
  std::string name;
  std::string server = "";  // HOST:PORT
  service::CertificateFiles tls = {};
  std::string tls_server_name = "";
  std::string job = "";  // default parent of lists
};

// The file of contexts:
//   current_context: prod
//   contexts:
//     prod: {server: "planner:7070", tls_ca: ca.crt, tls_cert: tls.crt, tls_key: tls.key, job: llama}
// Paths that are not absolute are relative to the file's folder.
struct Contexts {
  std::string path;
  std::string current = "";  // "": none
  std::vector<Context> all = {};

  // NOT_FOUND names the existing contexts.
  absl::StatusOr<const Context*> Find(const std::string& name) const;
};

// $REMESH_CONFIG, else ~/.config/remesh/config.yaml.
std::string ContextsPath();

// A missing file has no contexts. INVALID_ARGUMENT names file and key.
absl::StatusOr<Contexts> ReadContexts(const std::string& path);

// Makes a context the current one, and changes nothing else in the file. NOT_FOUND when no context
// has this name.
absl::Status UseContext(const std::string& path, const std::string& name);

// Sets the environment variables of the context (REMESH_SERVER, REMESH_TLS_*, REMESH_PARENT) unless
// they are already set, so that flags and the environment win over contexts. `name`: the value of
// --context, or "": $REMESH_CONTEXT, else the current context, else none. Call it before threads
// are started.
absl::Status ApplyContext(const std::string& name);

}  // namespace remesh::client
