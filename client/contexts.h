// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/certificates.h"

namespace remesh::client {

// A server under a name, and how to call it.
struct Context {
  std::string name;
  std::string server = "";  // HOST:PORT
  service::CertificateFiles tls = {};
  std::string tls_server_name = "";
  std::string job = "";  // what lists are of unless they are told otherwise
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

  // NOT_FOUND naming those that there are.
  absl::StatusOr<const Context*> Find(const std::string& name) const;
};

// $REMESH_CONFIG, else ~/.config/remesh/config.yaml.
std::string ContextsPath();

// A file that is not there has no contexts. INVALID_ARGUMENT names file and key.
absl::StatusOr<Contexts> ReadContexts(const std::string& path);

// Makes a context the current one; nothing else in the file changes. NOT_FOUND when there is none of
// the name.
absl::Status UseContext(const std::string& path, const std::string& name);

// Sets what the context says in the environment (REMESH_SERVER, REMESH_TLS_*, REMESH_PARENT) where
// that does not say it, so that flags and environment win over contexts. `name`: of --context, or
// "": $REMESH_CONTEXT, else the current one, else none. Before threads are started.
absl::Status ApplyContext(const std::string& name);

}  // namespace remesh::client
