// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/tls/certificates.h"

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

// The parts of the command line that say which server to call.
struct ServerChoice {
  std::string context = "";  // the value of --context, or ""
  bool has_server = false;   // whether --server is given
};

// Sets the environment variables of the context (REMESH_SERVER, REMESH_TLS_*, REMESH_PARENT), from
// which flags take their defaults. A context of --context replaces the caller's variables, as flags
// do: its server is never called with another's certificates. One of $REMESH_CONTEXT or the file's
// current one yields to them. The context's job is for its own server only. Call it before threads
// are started.
absl::Status ApplyContext(const ServerChoice& choice);

}  // namespace remesh::client
