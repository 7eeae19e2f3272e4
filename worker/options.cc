// SPDX-License-Identifier: Apache-2.0
#include "worker/options.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/host_port.h"
#include "base/text/resource_names.h"
#include "base/text/transport_names.h"
#include "proto/convert/presets/message_costs.h"
#include "proto/convert/presets/presets.h"
#include "service/log/log.h"
#include "service/settings/config_check.h"
#include "worker/join_token.h"
#include "worker/local/handle_socket.h"

namespace remesh::worker {
namespace {

// The host of HOST:PORT, without the brackets of IPv6; "" for another form.
std::string HostOf(const std::string& address) {
  const std::optional<HostPort> split = SplitHostPort(address);
  return split ? split->host : "";
}

// This machine's local address on the route to `address` (HOST:PORT); "" if there is none.
std::string AddressTowards(const std::string& address) {
  const std::optional<HostPort> split = SplitHostPort(address);
  if (!split) return "";
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(split->host.c_str(), "9", &hints, &found) != 0) return "";
  std::string result;
  const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  char text[INET6_ADDRSTRLEN] = "";
  // Connecting a datagram socket sends nothing; it only selects the route.
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text), nullptr, 0,
                  NI_NUMERICHOST) == 0) {
    result = text;
  }
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  return result;
}

absl::Status CompleteDevices(WorkerOptions& options) {
  if (HasAssignedIds(options)) return absl::OkStatus();
  if (options.device_ids.empty()) {
    for (int64_t i = 0; i < options.devices; ++i) options.device_ids.push_back(absl::StrCat(i));
  }
  options.devices = static_cast<int64_t>(options.device_ids.size());
  std::set<int64_t> seen;
  for (size_t i = 0; i < options.device_ids.size(); ++i) {
    int64_t id = -1;
    if (!absl::SimpleAtoi(options.device_ids[i], &id) || id < 0 || !seen.insert(id).second) {
      return InvalidField(absl::StrCat("device_ids[", i, "]"), options.device_ids[i],
                          "must be a number >= 0, given once, or auto alone");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRate(const char* key, double rate) {
  if (rate > 0) return absl::OkStatus();
  return InvalidField(key, absl::StrCat(rate), "must be > 0");
}

// Costs of messages that stay 0 are those of the transport, which the server knows. The presets
// that have costs are machines without GPUs, so those of NCCL's workers are not theirs.
absl::Status CompleteMessageCosts(const v1::TopologyPreset& preset, WorkerOptions& options) {
  planner::MessageCosts costs = proto::kNoMessageCosts;
  if (options.transport != kNcclTransport) proto::OverrideMessageCosts(preset, costs);
  v1::Register given;
  given.set_nic_message_seconds(options.nic_message_seconds);
  given.set_fabric_message_seconds(options.fabric_message_seconds);
  given.set_post_seconds(options.post_seconds);
  given.set_posting_threads(static_cast<int32_t>(options.posting_threads));
  RETURN_IF_ERROR(proto::CheckMessageCosts(given));
  proto::OverrideMessageCosts(given, costs);
  options.nic_message_seconds = costs.nic_message_seconds;
  options.fabric_message_seconds = costs.fabric_message_seconds;
  options.post_seconds = costs.post_seconds;
  options.posting_threads = costs.posting_threads;
  return absl::OkStatus();
}

absl::Status CompleteCapacities(WorkerOptions& options) {
  const bool assumed = options.preset.empty();
  ASSIGN_OR_RETURN(const v1::TopologyPreset* preset,
                   proto::FindPreset(assumed ? kAssumedPreset : options.preset));
  options.capacities_assumed =
      assumed && (options.nic_bytes_per_second == 0 || options.fabric_bytes_per_second == 0);
  if (options.nics == 0) options.nics = preset->nics();
  if (options.nic_bytes_per_second == 0) {
    options.nic_bytes_per_second = preset->nic_bytes_per_second();
  }
  if (options.fabric_bytes_per_second == 0) {
    options.fabric_bytes_per_second = preset->fabric_bytes_per_second();
  }
  RETURN_IF_ERROR(CheckRate("nic_bytes_per_second", options.nic_bytes_per_second));
  RETURN_IF_ERROR(CheckRate("fabric_bytes_per_second", options.fabric_bytes_per_second));
  return CompleteMessageCosts(*preset, options);
}

absl::Status CheckOneOf(const char* key, const std::string& value,
                        const std::vector<std::string>& values) {
  if (std::find(values.begin(), values.end(), value) != values.end()) return absl::OkStatus();
  return InvalidField(key, value, absl::StrCat("must be one of ", absl::StrJoin(values, ", ")));
}

absl::Status CheckSocketPath(const std::string& path) {
  // The socket for handles, beside this one, has a longer name.
  constexpr size_t kMost = sizeof(sockaddr_un::sun_path) - sizeof(kHandlesSuffix);
  if (!path.empty() && path.size() <= kMost) return absl::OkStatus();
  return InvalidField("socket_path", path, absl::StrCat("must be of 1 to ", kMost, " bytes"));
}

absl::Status CheckHost(const std::string& host) {
  if (IsHostName(host)) return absl::OkStatus();
  return InvalidField(
      "host", host,
      absl::StrCat("must be 1 to ", kHostNameMax, " of [A-Za-z0-9._-], a letter or digit first"));
}

absl::Status CheckDevice(const WorkerOptions& options) {
  std::vector<std::string> gpus;
  for (const GpuKind& kind : options.gpus) gpus.push_back(kind.name);
  const std::string& device = options.device;
  if (device != "host" && std::find(gpus.begin(), gpus.end(), device) == gpus.end()) {
    const char* const help =
        device == "sim"
            ? "; simulated GPUs are in remesh-worker-sim, which the build puts beside its tests"
            : "";
    return InvalidField("device", device,
                        absl::StrCat("must be host or ", absl::StrJoin(gpus, " or "), help));
  }
  if ((options.transport == kNcclTransport) == (device != "host")) return absl::OkStatus();
  return InvalidField(
      "device", device,
      absl::StrCat("must be ", absl::StrJoin(gpus, " or "),
                   " with transport nccl, and host with others: transport is ", options.transport));
}

// Trainers read the address, so it may hold nothing but a name and a port.
absl::Status CheckAdvertised(const std::string& address) {
  const size_t at = address.rfind('@');
  if (at != std::string::npos) {
    return InvalidField("advertise_server", absl::StrCat("(not shown)", address.substr(at)),
                        "must be HOST:PORT without a user or password: every trainer can read it");
  }
  const std::string host = HostOf(address);
  const auto fits = [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("._-:%", c); };
  const bool is_name = !host.empty() && std::all_of(host.begin(), host.end(), fits);
  if (is_name || address.empty()) return absl::OkStatus();
  return InvalidField("advertise_server", address, "must be HOST:PORT, HOST a name or IP address");
}

absl::Status CheckDataPlane(const WorkerOptions& options) {
  RETURN_IF_ERROR(
      CheckOneOf("transport", options.transport, {kTcpTransport, kUcxTransport, kNcclTransport}));
  RETURN_IF_ERROR(CheckDevice(options));
  RETURN_IF_ERROR(CheckOneOf("device_buffers", options.device_buffers, {"device", "host"}));
  return CheckOneOf("recheck_sources", options.recheck_sources, {"if_open", "always"});
}

// Completes the options that need neither network nor files. Returns the first problem of each
// kind.
std::vector<absl::Status> CompleteHere(WorkerOptions& options) {
  if (options.host.empty()) {
    char name[256] = "";
    gethostname(name, sizeof(name) - 1);
    options.host = name;
  }
  std::vector<absl::Status> problems = {service::ParseLogLevel(options.log_level).status(),
                                        service::ParseLogFormat(options.log_format).status(),
                                        service::CheckAllOrNone(options.tls, {}),
                                        CheckHost(options.host),
                                        CompleteDevices(options),
                                        CompleteCapacities(options),
                                        CheckSocketPath(options.socket_path),
                                        CheckAdvertised(options.advertise_server),
                                        SocketRulesOf(options).status(),
                                        CheckDataPlane(options)};
  std::erase_if(problems, [](const absl::Status& status) { return status.ok(); });
  return problems;
}

void AddHostSettings(WorkerOptions& options, service::Settings& settings) {
  settings.Section("This host");
  settings.AddString(
      "host", &options.host,
      "Name under which the host registers, unique among workers; empty: the machine's host name.");
  settings.AddAddress("server_address", &options.server_address, "HOST:PORT of the server.",
                      {.port_min = 1});
  settings.AddAddress(
      "advertise_server", &options.advertise_server,
      "HOST:PORT at which trainers of this host reach the server, without credentials, "
      "because the worker gives it to every caller; empty: server_address.",
      {.port_min = 1, .optional = true});
  settings.AddDuration("keepalive_time", &options.keepalive_time,
                       "A connection on which the server is silent for this long is probed. At "
                       "least 1s, because the server refuses more frequent probes.",
                       std::chrono::seconds(1));
  settings.AddDuration(
      "keepalive_timeout", &options.keepalive_timeout,
      "A connection whose probe is not answered within this time is closed and opened again. The "
      "server's process may be stopped for as long without failing an execution.",
      std::chrono::milliseconds(1));
  settings.AddString(
      "tls_ca_file", &options.tls.ca,
      "PEM file of the CAs that sign the server's certificate. Set all three TLS files or none. "
      "None: no TLS. Changed files are read again at once, or within 10s, or at SIGHUP.");
  settings.AddString("tls_certificate_file", &options.tls.certificate,
                     "PEM file of this host's certificate, whose SPIFFE id ends in /worker/HOST, "
                     "followed by the intermediate certificates up to its CA.");
  settings.AddString("tls_key_file", &options.tls.key,
                     "PEM file of the certificate's private key, without a passphrase.");
  settings.AddString(
      "tls_server_name", &options.tls_server_name,
      "Name that the server's certificate must have; empty: the host of server_address.");
  settings.AddString("join_token_file", &options.join_token_file,
                     "File whose first line is one of the server's join tokens, which admits a "
                     "host that the server does not know; empty: none. Read again at each try to "
                     "attach.");
  settings.AddInt("devices", &options.devices,
                  "Number of devices; host memory stands in for them. Ignored if device_ids lists "
                  "the ids. With device cuda and device_ids auto, the number of GPUs that the "
                  "worker sees is used instead.",
                  1, 1024);
  settings.AddStrings("device_ids", &options.device_ids,
                      "Id of each device, in local order, unique among all workers; auto: the "
                      "server assigns ids, which the host keeps; empty: 0, 1, ...");
  settings.AddString("preset", &options.preset,
                     "Kind of machine, which supplies the capacities below that are 0. remeshctl "
                     "topology list shows the presets. Without it they are assumed to be those of "
                     "cpu-100g: predictions may be far off, and remeshctl topology get, plan and "
                     "executions get say so.");
  settings.AddDouble("nic_bytes_per_second", &options.nic_bytes_per_second,
                     "Capacity of one NIC per direction, bytes per second; 0: the preset's.");
  settings.AddInt("nics", &options.nics, "Number of equal NICs; 0: the preset's.", 0, 1024);
  settings.AddDouble(
      "fabric_bytes_per_second", &options.fabric_bytes_per_second,
      "Capacity of one device inside the host per direction, bytes per second; 0: the preset's.");
  settings.AddDouble("nic_message_seconds", &options.nic_message_seconds,
                     "What a message costs a NIC beside its bytes, in its direction, seconds; 0: "
                     "the preset's, or that of the transport: 10e-6 for tcp, 2e-6 for others.");
  settings.AddDouble("fabric_message_seconds", &options.fabric_message_seconds,
                     "What a copy between two devices of the host costs the fabric of each beside "
                     "its bytes, seconds; 0: the preset's, or nothing.");
  settings.AddDouble("post_seconds", &options.post_seconds,
                     "Time of a thread to post a send or a receive, seconds; 0: the preset's, or "
                     "that of the transport: 3e-6 for tcp, 1e-6 for others.");
  settings.AddInt("posting_threads", &options.posting_threads,
                  "Number of threads that post; 0: the preset's, or 1.", 0, 4096);
  settings.AddString("parent", &options.parent,
                     "Name of the rack above this host, which the server's setting topology must "
                     "declare; empty: none.");
}

void AddBufferSettings(WorkerOptions& options, service::Settings& settings) {
  settings.Section("Buffers and trainers");
  settings.AddString("buffer_directory", &options.buffer_directory,
                     "Folder, on a tmpfs, of the buffers that trainers map. Each worker needs a "
                     "folder of its own.");
  settings.AddBytes("memory_limit_bytes", &options.memory_limit_bytes,
                    "Maximum number of bytes that buffers may take; 0: what the file system has.");
  settings.AddDuration(
      "recycle_idle", &options.recycle_idle,
      "How long the memory of a retired generation is kept for the next generation of its state, "
      "unless it is needed for something else; 0s: not at all.",
      std::chrono::nanoseconds(0));
  settings.AddString("socket_path", &options.socket_path,
                     "Unix socket, mode 0660, on which trainers of this host call the worker.");
  settings.AddStrings("socket_allowed_uids", &options.socket_allowed_uids,
                      "Numeric ids of the users who may call on the socket. If socket_allowed_gids "
                      "is empty too: all users whom the mode of the socket admits.");
  settings.AddStrings("socket_allowed_gids", &options.socket_allowed_gids,
                      "Numeric ids of the groups whose members may call on the socket.");
  settings.AddObject("socket_jobs_by_uid", &options.socket_jobs_by_uid,
                     "Job of each user, such as {\"1000\": llama}. A user that is listed may name "
                     "states of that job only; other users are not restricted to a job.");
}

void AddDataSettings(WorkerOptions& options, service::Settings& settings) {
  settings.Section("Data plane");
  settings.AddString(
      "transport", &options.transport,
      "Transport of data to other hosts: tcp, ucx for InfiniBand and RoCE, or nccl between GPUs, "
      "which reaches hosts without GPUs by TCP.");
  settings.AddString("device", &options.device,
                     "What copies, packs and hashes data: host; or, with transport nccl, cuda (the "
                     "GPUs).");
  settings.AddString(
      "device_buffers", &options.device_buffers,
      "Where a host with device cuda keeps shards of memory kind \"device\": device, in the memory "
      "of the GPU, which trainers import; or host, in files, which are pinned while they move. "
      "Shards of other memory kinds are always in files.");
  settings.AddString("keeper_socket", &options.keeper_socket,
                     "Socket of the host's remesh-keeper, which holds device buffers while the "
                     "worker restarts; empty: device buffers end with the worker.");
  settings.AddString(
      "nccl_library", &options.nccl_library,
      "Library that transport nccl loads: a path, or a name for the dynamic linker.");
  settings.AddDuration("nccl_idle", &options.nccl_idle,
                       "How long NCCL communicators are kept after a move for the next move among "
                       "the same hosts. Until then they take memory of the GPUs. 0s: not at all.",
                       std::chrono::nanoseconds(0));
  settings.AddString("data_bind_address", &options.data_bind_address,
                     "IP or IP:PORT ([IPv6]:PORT) at which peers reach this host; empty: the local "
                     "address on the route to the server, any port.");
  settings.AddString("ucx_tls", &options.ucx_tls,
                     "UCX's transports, as in UCX_TLS: tcp, or rc,ud,tcp with InfiniBand or RoCE.");
  settings.AddString("ucx_net_devices", &options.ucx_net_devices,
                     "UCX's devices, as in UCX_NET_DEVICES; empty: with tcp alone the device of "
                     "the bind address, otherwise all devices.");
  settings.AddInt("copy_threads", &options.copy_threads,
                  "Number of threads that copy, pack and hash.", 1, 1024);
  settings.AddBytes("staging_bytes", &options.staging_bytes,
                    "Maximum number of bytes of packed slices in flight, per attempt.");
  settings.AddInt("slices_in_flight", &options.slices_in_flight,
                  "Maximum number of slices in flight, per attempt.", 1, 65536);
  settings.AddString(
      "recheck_sources", &options.recheck_sources,
      "When a move's source is hashed again before the commit. if_open: if another process may "
      "have had its files open since the move began. always: for trainers that let devices, RDMA "
      "or io_uring write into memory that they no longer have mapped, which the kernel does not "
      "tell.");
}

void AddOperationSettings(WorkerOptions& options, service::Settings& settings) {
  settings.Section("Operation");
  settings.AddDuration(
      "drain", &options.drain,
      "Time at SIGTERM for moves to end by themselves. Moves that are still undecided then end "
      "FAILED, with the source intact. If the worker takes part in no move, it does not wait.");
  settings.AddAddress("metrics_address", &options.metrics_address,
                      "HOST:PORT on which /metrics, /livez and /readyz are served; port 0: any "
                      "free port; empty: not served.",
                      {.optional = true});
  settings.AddString(
      "port_file", &options.port_file,
      "File to which the ports in use are written, one \"name: value\" per line; empty: none.");
  settings.AddString("log_level", &options.log_level,
                     "Lowest level that is logged: debug, info, warning or error.");
  settings.AddString(
      "log_format", &options.log_format,
      "Format of the log: logfmt, or json, with one object per line and the same keys.");
}

}  // namespace

void AddSettings(WorkerOptions& options, service::Settings& settings) {
  AddHostSettings(options, settings);
  AddBufferSettings(options, settings);
  AddDataSettings(options, settings);
  AddOperationSettings(options, settings);
  settings.Live({"log_level", "log_format", "socket_allowed_uids", "socket_allowed_gids",
                 "socket_jobs_by_uid"});
}

absl::Status ValidateHere(WorkerOptions options) {
  const std::vector<absl::Status> problems = CompleteHere(options);
  return problems.empty() ? absl::OkStatus() : problems.front();
}

bool HasAssignedIds(const WorkerOptions& options) {
  return options.device_ids == std::vector<std::string>{"auto"};
}

absl::Status Complete(WorkerOptions& options) {
  for (const absl::Status& problem : CompleteHere(options)) RETURN_IF_ERROR(problem);
  ASSIGN_OR_RETURN(options.join_token, ReadJoinToken(options.join_token_file));
  if (options.data_bind_address.empty())
    options.data_bind_address = AddressTowards(options.server_address);
  if (options.data_bind_address.empty()) {
    return InvalidField("server_address", options.server_address,
                        "must be a host that can be found, or set data_bind_address");
  }
  return absl::OkStatus();
}

AdvertisedServer ServerForTrainers(const WorkerOptions& options) {
  AdvertisedServer server{.address = options.advertise_server,
                          .tls_server_name = options.tls_server_name};
  if (server.address.empty()) server.address = options.server_address;
  const std::string dialled = HostOf(options.server_address);
  const bool other_name = HostOf(server.address) != dialled;
  const bool tls = !options.tls.ca.empty();
  if (tls && other_name && server.tls_server_name.empty()) server.tls_server_name = dialled;
  return server;
}

absl::StatusOr<SocketRules> SocketRulesOf(const WorkerOptions& options) {
  return MakeSocketRules(options.socket_allowed_uids, options.socket_allowed_gids,
                         options.socket_jobs_by_uid);
}

std::vector<absl::Status> Problems(WorkerOptions options) {
  std::vector<absl::Status> problems = CompleteHere(options);
  service::CheckReadable("join_token_file", options.join_token_file, problems,
                         [&] { return ReadJoinToken(options.join_token_file).status(); });
  service::CheckCertificates(options.tls, {}, problems);
  return problems;
}

}  // namespace remesh::worker
