// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/debug_parts.h"
#include "client/files/tar_file.h"
#include "service/process/version.h"

namespace remesh::client {
namespace {

struct DebugOptions {
  Endpoint server;
  std::string file;
};

std::string Stamp(absl::Time time) {
  return absl::FormatTime("%Y%m%dT%H%M%SZ", time, absl::UTCTimeZone());
}

std::string OutcomeOf(const DebugPart& part) {
  if (part.content.ok()) return part.note.empty() ? "ok" : part.note;
  return absl::StrCat(absl::StatusCodeToString(part.content.status().code()), ": ",
                      part.content.status().message());
}

// The text of bundle.json: what the bundle contains, what it lacks, and why.
std::string Manifest(const DebugOptions& options, const std::vector<DebugPart>& parts,
                     absl::Time now) {
  nlohmann::ordered_json manifest = {
      {"time", absl::FormatTime(absl::RFC3339_sec, now, absl::UTCTimeZone())},
      {"server", options.server.address},
      {"remeshctl_version", std::string(service::kVersion)},
      {"parts", nlohmann::ordered_json::object()}};
  for (const DebugPart& part : parts) manifest["parts"][part.name] = OutcomeOf(part);
  return manifest.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::Status Write(const DebugOptions& options, const std::string& file,
                   const std::vector<DebugPart>& parts, absl::Time now) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TarFile> tar,
                   TarFile::Create(file, NewFile::Existing::kKeep));
  const int64_t seconds = absl::ToUnixSeconds(now);
  const std::string folder = absl::StrCat("remesh-debug-", Stamp(now), "/");
  RETURN_IF_ERROR(tar->Add(folder + "bundle.json", Manifest(options, parts, now), seconds));
  for (const DebugPart& part : parts) {
    if (part.content.ok()) RETURN_IF_ERROR(tar->Add(folder + part.name, *part.content, seconds));
  }
  return tar->Commit();
}

absl::Status Bundle(const DebugOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<DebugPart> parts, CollectDebugParts(options.server));
  const absl::Time now = absl::Now();
  const std::string file =
      options.file.empty() ? absl::StrCat("remesh-debug-", Stamp(now), ".tar.gz") : options.file;
  RETURN_IF_ERROR(Write(options, file, parts, now));
  Table table({"PART", "BYTES", "OUTCOME"});
  for (const DebugPart& part : parts) {
    const auto bytes = part.content.ok() ? std::ssize(*part.content) : 0;
    table.AddRow({part.name, FormatBytes(bytes), OutcomeOf(part)});
  }
  std::cout << table.ToString() << "written to " << file << "\n" << std::flush;
  return absl::OkStatus();
}

}  // namespace

void AddDebug(CLI::App& app, Command& command) {
  CLI::App* debug = app.add_subcommand("debug", "Collect what helps to find a fault");
  debug->require_subcommand(1);
  CLI::App* sub = debug->add_subcommand(
      "bundle",
      "Write a .tar.gz of what the server is and has: version, settings, readiness, metrics, log, "
      "states, executions, workers, plans, as far as the caller may see it");
  auto options = std::make_shared<DebugOptions>();
  AddServerFlags(*sub, options->server);
  sub->add_option("-o,--output", options->file,
                  "File to write (default remesh-debug-TIME.tar.gz here)");
  sub->callback([&command, options] { command = [options] { return Bundle(*options); }; });
}

}  // namespace remesh::client
