// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/contexts.h"
#include "client/input.h"
#include "client/table.h"

namespace remesh::client {
namespace {

absl::Status View() {
  ASSIGN_OR_RETURN(const Contexts contexts, ReadContexts(ContextsPath()));
  std::cout << "# " << contexts.path << "\n";
  if (contexts.all.empty() && contexts.current.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, ReadText(contexts.path));
  std::cout << text;
  return absl::OkStatus();
}

absl::Status GetContexts() {
  ASSIGN_OR_RETURN(const Contexts contexts, ReadContexts(ContextsPath()));
  Table table({"CURRENT", "NAME", "SERVER", "TLS", "JOB"});
  for (const Context& context : contexts.all) {
    table.AddRow({context.name == contexts.current ? "*" : "", context.name, context.server,
                  context.tls.empty() ? "no" : "yes", context.job});
  }
  std::cout << table.ToString();
  return absl::OkStatus();
}

absl::Status Use(const std::string& name) {
  RETURN_IF_ERROR(UseContext(ContextsPath(), name));
  std::cout << name << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddConfig(CLI::App& app, Command& command) {
  CLI::App* noun = app.add_subcommand("config", "Servers under names: the file of contexts");
  noun->require_subcommand(1);
  noun->footer(
      "The file is $REMESH_CONFIG, else ~/.config/remesh/config.yaml. Flags win over it, and so "
      "does "
      "$REMESH_* unless --context names the context.");
  noun->add_subcommand("view", "Print the file")->callback([&command] { command = View; });
  noun->add_subcommand("get-contexts", "List the contexts")->callback([&command] {
    command = GetContexts;
  });
  CLI::App* use = noun->add_subcommand("use-context", "Make a context the current one");
  auto name = std::make_shared<std::string>();
  use->add_option("NAME", *name, "Of a context of the file")->required();
  use->callback([&command, name] { command = [name] { return Use(*name); }; });
}

}  // namespace remesh::client
