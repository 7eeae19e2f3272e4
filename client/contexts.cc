// SPDX-License-Identifier: Apache-2.0
#include "client/contexts.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/connection.h"
#include "client/input.h"
#include "proto/text/yaml_to_json.h"

namespace remesh::client {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string PathFrom(const std::string& file, const std::string& path) {
  if (path.empty() || fs::path(path).is_absolute()) return path;
  return (fs::path(file).parent_path() / path).string();
}

absl::Status TakeKey(const std::string& file, const std::string& key, const std::string& value,
                     Context& context) {
  if (key == "server") {
    context.server = value;
  } else if (key == "tls_ca") {
    context.tls.ca = PathFrom(file, value);
  } else if (key == "tls_cert") {
    context.tls.certificate = PathFrom(file, value);
  } else if (key == "tls_key") {
    context.tls.key = PathFrom(file, value);
  } else if (key == "tls_server_name") {
    context.tls_server_name = value;
  } else if (key == "job") {
    context.job = value;
  } else {
    return InvalidField(key, value,
                        "must not be here: the keys are server, tls_ca, tls_cert, tls_key, "
                        "tls_server_name and job");
  }
  return absl::OkStatus();
}

absl::StatusOr<Context> ParseContext(const std::string& file, const std::string& name,
                                     const nlohmann::json& map) {
  if (!map.is_object()) return InvalidField("", map.dump(), "must be a map");
  Context context{.name = name};
  for (const auto& [key, value] : map.items()) {
    if (!value.is_string()) return InvalidField(key, value.dump(), "must be a plain value");
    RETURN_IF_ERROR(TakeKey(file, key, value.get<std::string>(), context));
  }
  if (!IsServerAddress(context.server))
    return InvalidField("server", context.server, "must be HOST:PORT, as in 10.0.0.1:7070");
  RETURN_IF_ERROR(service::CheckAllOrNone(
      context.tls, {.ca = "tls_ca", .certificate = "tls_cert", .key = "tls_key"}));
  return context;
}

const char* ExpectationOfKey(const std::string& key) {
  if (key == "current_context") return "must be the name of a context";
  if (key == "contexts") return "must be a map from names to contexts";
  return "must not be here: the keys are current_context and contexts";
}

absl::StatusOr<Contexts> ParseContexts(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(const std::string json, proto::YamlToJson(text));
  const nlohmann::json file = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) return InvalidField("file", json, "must be a map");
  Contexts contexts{.path = path};
  for (const auto& [key, value] : file.items()) {
    if (key == "current_context" && value.is_string()) {
      contexts.current = value.get<std::string>();
    } else if (key == "contexts" && value.is_object()) {
      for (const auto& [name, map] : value.items()) {
        auto context = ParseContext(path, name, map);
        if (!context.ok()) return AtField(absl::StrCat("contexts.", name), context.status());
        contexts.all.push_back(*std::move(context));
      }
    } else {
      return InvalidField(key, value.dump(), ExpectationOfKey(key));
    }
  }
  return contexts;
}

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string next = path + ".new";
  std::error_code error;
  std::ofstream(next, std::ios::trunc) << text;
  fs::permissions(next, fs::status(path, error).permissions(), error);
  if (std::rename(next.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return InvalidField("file", path, absl::StrCat("must be writable: ", std::strerror(errno)));
}

bool IsSet(const char* name) { return std::getenv(name) != nullptr; }

void SetUnlessSet(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), /*overwrite=*/0);
}

void UnsetServer() {
  for (const char* name : {"REMESH_SERVER", "REMESH_TLS_CA", "REMESH_TLS_CERT", "REMESH_TLS_KEY",
                           "REMESH_TLS_SERVER_NAME"})
    unsetenv(name);
}

}  // namespace

absl::StatusOr<const Context*> Contexts::Find(const std::string& name) const {
  std::vector<std::string> names;
  for (const Context& context : all) {
    if (context.name == name) return &context;
    names.push_back(context.name);
  }
  return MakeError(
      absl::StatusCode::kNotFound,
      absl::StrCat(path, " has no context \"", name, "\"",
                   names.empty() ? ", nor any other"
                                 : absl::StrCat("; it has: ", absl::StrJoin(names, ", "))),
      {.reason = "CONTEXT_NOT_FOUND", .metadata = {{"context", name}}});
}

std::string ContextsPath() {
  const std::string path = Environment("REMESH_CONFIG");
  return path.empty() ? Environment("HOME") + "/.config/remesh/config.yaml" : path;
}

absl::StatusOr<Contexts> ReadContexts(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return Contexts{.path = path};
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  absl::StatusOr<Contexts> contexts = ParseContexts(path, text);
  if (!contexts.ok()) return AtFile(path, contexts.status());
  return contexts;
}

absl::Status UseContext(const std::string& path, const std::string& name) {
  ASSIGN_OR_RETURN(const Contexts contexts, ReadContexts(path));
  RETURN_IF_ERROR(contexts.Find(name).status());
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  const std::string line = absl::StrCat("current_context: ", nlohmann::json(name).dump());
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const auto old = std::find_if(lines.begin(), lines.end(), [](const std::string& one) {
    return absl::StartsWith(one, "current_context:");
  });
  if (old == lines.end()) {
    lines.insert(lines.begin(), line);
  } else {
    *old = line;
  }
  const std::string next = absl::StrJoin(lines, "\n");
  const absl::StatusOr<Contexts> read = ParseContexts(path, next);
  if (!read.ok() || read->current != name) {
    return InvalidField("file", path,
                        "must have current_context and contexts on lines of their own");
  }
  return WriteWhole(path, next);
}

absl::Status ApplyContext(const ServerChoice& choice) {
  ASSIGN_OR_RETURN(const Contexts contexts, ReadContexts(ContextsPath()));
  const bool by_flag = !choice.context.empty();
  std::string chosen = by_flag ? choice.context : Environment("REMESH_CONTEXT");
  if (chosen.empty()) chosen = contexts.current;
  if (chosen.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Context* context, contexts.Find(chosen));
  if (by_flag) UnsetServer();
  const bool is_called = !choice.has_server && !IsSet("REMESH_SERVER");
  SetUnlessSet("REMESH_SERVER", context->server);
  SetUnlessSet("REMESH_TLS_CA", context->tls.ca);
  SetUnlessSet("REMESH_TLS_CERT", context->tls.certificate);
  SetUnlessSet("REMESH_TLS_KEY", context->tls.key);
  SetUnlessSet("REMESH_TLS_SERVER_NAME", context->tls_server_name);
  if (is_called && !context->job.empty()) {
    setenv("REMESH_PARENT", ("jobs/" + context->job).c_str(), /*overwrite=*/by_flag ? 1 : 0);
  }
  return absl::OkStatus();
}

}  // namespace remesh::client
