// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "proto/convert/presets/presets.h"
#include "proto/text/text.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::client {
namespace {

// What a message costs a NIC; "" where the transport decides.
std::string MessageCost(const v1::TopologyPreset& preset) {
  return preset.nic_message_seconds() > 0 ? FormatSeconds(preset.nic_message_seconds()) : "";
}

Table PresetTable(const v1::TopologyPresets& presets) {
  Table table({"PRESET", "DEVICES", "NICS", "OF", "FABRIC A DEVICE", "A MESSAGE", "WHAT"});
  for (const v1::TopologyPreset& preset : presets.presets()) {
    table.AddRow({preset.name(), absl::StrCat(preset.devices()), absl::StrCat(preset.nics()),
                  FormatRate(preset.nic_bytes_per_second()),
                  FormatRate(preset.fabric_bytes_per_second()), MessageCost(preset),
                  preset.description()});
  }
  return table;
}

absl::Status List(OutputFormat format) {
  Print(format, proto::Presets(), [] { return PresetTable(proto::Presets()); });
  return absl::OkStatus();
}

// JSON strings are valid YAML.
std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string HostLine(const v1::Host& host) {
  std::string line = absl::StrCat("- {name: ", Quoted(host.name()), ", device_ids: [",
                                  absl::StrJoin(host.device_ids(), ", "), "], nics: ", host.nics(),
                                  ", nic_bytes_per_second: ", host.nic_bytes_per_second(),
                                  ", fabric_bytes_per_second: ", host.fabric_bytes_per_second());
  for (const auto& [field, cost] :
       {std::pair<const char*, double>{"nic_message_seconds", host.nic_message_seconds()},
        {"fabric_message_seconds", host.fabric_message_seconds()},
        {"post_seconds", host.post_seconds()},
        {"posting_threads", host.posting_threads()}}) {
    if (cost != 0) absl::StrAppend(&line, ", ", field, ": ", cost);
  }
  if (!host.parent().empty()) absl::StrAppend(&line, ", parent: ", Quoted(host.parent()));
  if (host.capacities_assumed()) line += ", capacities_assumed: true";
  return line + "}\n";
}

std::string DomainLine(const v1::Domain& domain) {
  std::string line = absl::StrCat("- {name: ", Quoted(domain.name()));
  if (!domain.parent().empty()) absl::StrAppend(&line, ", parent: ", Quoted(domain.parent()));
  return absl::StrCat(line, ", egress_bytes_per_second: ", domain.egress_bytes_per_second(),
                      ", ingress_bytes_per_second: ", domain.ingress_bytes_per_second(), "}\n");
}

// A topology as people write it: a line for each host and domain, capacities as 5e+10.
std::string TopologyYaml(const v1::Topology& topology) {
  std::string text = "hosts:\n";
  for (const v1::Host& host : topology.hosts()) text += HostLine(host);
  if (topology.domains_size() > 0) text += "domains:\n";
  for (const v1::Domain& domain : topology.domains()) text += DomainLine(domain);
  return text;
}

void PrintTopology(const v1::Topology& topology, bool json) {
  std::cout << (json ? proto::ToJson(topology, /*pretty=*/true) : TopologyYaml(topology))
            << std::flush;
}

void AddFormFlag(CLI::App& app, bool& json) {
  const auto set = [&json](const std::string& text) { json = text == "json"; };
  app.add_option_function<std::string>("-o,--output", set, "Format of the output (default yaml)")
      ->transform(OneOf({"yaml", "json"}));
}

struct GetOptions {
  Endpoint server;
  bool json = false;
};

absl::Status Get(const GetOptions& options) {
  using Stub = v1::WorkerService::Stub;
  const std::unique_ptr<Stub> stub = v1::WorkerService::NewStub(ConnectServer(options.server));
  ASSIGN_OR_RETURN(const v1::Topology topology,
                   Call(options.server, *stub, &Stub::GetTopology, v1::GetTopologyRequest()));
  PrintTopology(topology, options.json);
  return absl::OkStatus();
}

struct ShowOptions {
  proto::Cluster cluster;
  bool json = false;
};

absl::Status Show(const ShowOptions& options) {
  RETURN_IF_ERROR(proto::FindPreset(options.cluster.preset, "PRESET").status());
  ASSIGN_OR_RETURN(const v1::Topology topology, proto::MakeTopology(options.cluster));
  PrintTopology(topology, options.json);
  return absl::OkStatus();
}

void AddShow(CLI::App& topology, Command& command) {
  CLI::App* sub = topology.add_subcommand(
      "show", "Print a cluster of equal machines: a Topology for plan --topology, or for a spec");
  auto options = std::make_shared<ShowOptions>();
  proto::Cluster& cluster = options->cluster;
  sub->add_option("PRESET", cluster.preset, "See remeshctl topology list")->required();
  sub->add_option("--hosts", cluster.hosts, "How many")
      ->transform(WholeNumber())
      ->capture_default_str();
  sub->add_option("--host-prefix", cluster.host_prefix,
                  "Prefix of the hosts' names, which a number from 0 follows")
      ->capture_default_str();
  sub->add_option("--first-device", cluster.first_device, "Id of the first device")
      ->transform(WholeNumber(0))
      ->capture_default_str();
  CLI::Option* racks =
      sub->add_option("--racks", cluster.racks,
                      "Divide the hosts among this many racks, each with an uplink")
          ->transform(WholeNumber(0))
          ->capture_default_str();
  sub->add_option("--oversubscription", cluster.oversubscription,
                  "Capacity of a rack's hosts over that of its uplink")
      ->transform(AboveZero())
      ->capture_default_str()
      ->needs(racks);
  AddFormFlag(*sub, options->json);
  sub->callback([&command, options] { command = [options] { return Show(*options); }; });
}

}  // namespace

void AddTopology(CLI::App& app, Command& command) {
  CLI::App* topology = app.add_subcommand("topology", "Hosts and links of common machines");
  topology->require_subcommand(1);
  CLI::App* list = topology->add_subcommand("list", "List the presets");
  auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  AddOutputFlag(*list, *format);
  list->callback([&command, format] { command = [format] { return List(*format); }; });
  AddShow(*topology, command);
  CLI::App* get = topology->add_subcommand(
      "get", "Print the topology of a server's workers, which an empty topology stands for");
  auto options = std::make_shared<GetOptions>();
  AddServerFlags(*get, options->server);
  AddFormFlag(*get, options->json);
  get->callback([&command, options] { command = [options] { return Get(*options); }; });
}

}  // namespace remesh::client
