// SPDX-License-Identifier: Apache-2.0
#include "client/commands/command.h"

#include <map>
#include <string>

namespace remesh::client {
namespace {

const std::map<std::string, OutputFormat>& Formats() {
  static const auto* const formats = new std::map<std::string, OutputFormat>{
      {"table", OutputFormat::kTable}, {"wide", OutputFormat::kWide}, {"json", OutputFormat::kJson},
      {"yaml", OutputFormat::kYaml},   {"name", OutputFormat::kName},
  };
  return *formats;
}

void AddFormats(CLI::App& app, OutputFormat& format, const std::vector<std::string>& names) {
  const auto set = [&format](const std::string& text) { format = Formats().at(text); };
  app.add_option_function<std::string>("-o,--output", set, "Format of the output (default table)")
      ->transform(OneOf(names));
}

}  // namespace

namespace {

void AddTlsFlags(CLI::App& app, Endpoint& server) {
  const service::CertificateFields flags = TlsFlags();
  app.add_option(flags.ca, server.tls.ca, "PEM file of the CAs that sign the server's certificate")
      ->envname("REMESH_TLS_CA");
  app.add_option(flags.certificate, server.tls.certificate, "PEM file of the own certificate")
      ->envname("REMESH_TLS_CERT");
  app.add_option(flags.key, server.tls.key, "PEM file of its key")->envname("REMESH_TLS_KEY");
  app.add_option("--tls-server-name", server.tls_server_name,
                 "Name in the server's certificate (default: its host)")
      ->envname("REMESH_TLS_SERVER_NAME");
  app.parse_complete_callback([&server] {
    const absl::Status status = LoadCertificates(server);
    if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
  });
}

}  // namespace

CLI::Option* AddServerFlag(CLI::App& app, Endpoint& server, const char* help) {
  AddTlsFlags(app, server);
  return app.add_option("--server", server.address, help)
      ->envname("REMESH_SERVER")
      ->check(ServerAddressOrNone());
}

void AddTimeoutFlag(CLI::App& app, Endpoint& endpoint) {
  app.add_option("--timeout,--call-timeout", endpoint.timeout_seconds,
                 "Longest that a call may take, seconds")
      ->transform(Seconds())
      ->capture_default_str();
}

void SetHelpOfWatchTimeout(CLI::App& app) {
  app.get_option("--timeout")->description("Longest wait for the first answer, seconds");
}

void AddWaitTimeoutFlags(CLI::App& app, Endpoint& server, double& wait_seconds) {
  AddServerFlag(app, server, "Address of remesh-server, HOST:PORT")
      ->check(ServerAddress())
      ->capture_default_str();
  app.add_option("--timeout", wait_seconds,
                 "Longest wait for the end, seconds; then the exit code is 3, and the move goes on "
                 "(default: no limit)")
      ->transform(Seconds());
  server.timeout_flag = "--call-timeout";
  app.add_option("--call-timeout", server.timeout_seconds,
                 "Longest that a call may take, or the server be away during the wait, seconds")
      ->transform(Seconds())
      ->capture_default_str();
}

void AddServerFlags(CLI::App& app, Endpoint& server) {
  AddServerFlag(app, server, "Address of remesh-server, HOST:PORT")
      ->check(ServerAddress())
      ->capture_default_str();
  AddTimeoutFlag(app, server);
}

void AddSocketFlags(CLI::App& app, Endpoint& worker) {
  worker.address = kDefaultSocket;
  app.add_option("--socket", worker.address, "Unix socket of this host's remesh-worker")
      ->envname("REMESH_SOCKET")
      ->capture_default_str();
  AddTimeoutFlag(app, worker);
}

void AddOutputFlag(CLI::App& app, OutputFormat& format) {
  AddFormats(app, format, {"table", "wide", "json", "yaml", "name"});
}

void AddShortOutputFlag(CLI::App& app, OutputFormat& format) {
  AddFormats(app, format, {"table", "json"});
}

CLI::Option* AddName(CLI::App& app, const NameKind& kind, std::string& name, const char* argument) {
  return app.add_option(argument, name, kind.form)->required();
}

std::string ListCommandOf(const std::string& help) {
  for (const NameKind& kind :
       {kStateNames, kExecutionNames, kWorldNames, kPlanNames, kWorkerNames, kJobNames}) {
    const std::string form = kind.form;
    if (help.starts_with(form.substr(0, form.find(',')))) return kind.list;
  }
  return "";
}

void AddParentFlag(CLI::App& app, std::string& parent) {
  app.add_option("--parent", parent, "jobs/{job}; all jobs without it")->envname("REMESH_PARENT");
}

void AddPhaseFlag(CLI::App& app, const google::protobuf::EnumDescriptor* phases,
                  std::string& phase) {
  std::vector<std::string> names;
  for (int i = 1; i < phases->value_count(); ++i) names.push_back(phases->value(i)->name());
  app.add_option("--phase", phase, "Only those in this phase")
      ->transform(OneOf(names, /*ignore_case=*/true));
}

void AddWatchFlag(CLI::App& app, bool& watch) {
  app.add_flag("-w,--watch", watch, "Go on and show changes, as the command watch does");
}

void AddFullFlags(CLI::App& app, bool& full) {
  CLI::Option* flag = app.add_flag("--full", full, "With every transfer");
  const auto set = [&full](const std::string& view) { full = view == "full"; };
  app.add_option_function<std::string>("--view", set,
                                       "full: with every transfer, as --full (default basic)")
      ->transform(OneOf({"basic", "full"}))
      ->excludes(flag);
}

}  // namespace remesh::client
