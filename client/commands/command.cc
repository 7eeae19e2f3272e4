// SPDX-License-Identifier: Apache-2.0
#include "client/commands/command.h"

#include <cmath>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace remesh {

CLI::Validator AboveZero() {
  const auto check = [](std::string& text) -> std::string {
    double number = 0;
    if (absl::SimpleAtod(text, &number) && std::isfinite(number) && number > 0) return "";
    return absl::StrCat("value \"", text, "\" must be a number above 0");
  };
  return CLI::Validator(check, "ABOVE 0");
}

void AddServerFlags(CLI::App& app, Endpoint& server) {
  app.add_option("--server", server.address, "Address of remesh-server, HOST:PORT")
      ->envname("REMESH_SERVER")
      ->capture_default_str();
  app.add_option("--timeout", server.timeout_seconds, "Longest that a call may take, seconds")
      ->check(AboveZero())
      ->capture_default_str();
}

void AddSocketFlags(CLI::App& app, Endpoint& worker) {
  app.add_option("--socket", worker.address, "Unix socket of this host's remesh-worker")
      ->envname("REMESH_SOCKET")
      ->required();
  app.add_option("--timeout", worker.timeout_seconds, "Longest that a call may take, seconds")
      ->check(AboveZero())
      ->capture_default_str();
}

void AddOutputFlag(CLI::App& app, OutputFormat& format) {
  const auto set = [&format](const std::string& text) {
    format = text == "json" ? OutputFormat::kJson : OutputFormat::kTable;
  };
  app.add_option_function<std::string>("-o,--output", set, "Form of the answer (default table)")
      ->check(CLI::IsMember({"table", "json"}));
}

}  // namespace remesh
