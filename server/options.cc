// SPDX-License-Identifier: Apache-2.0
#include "server/options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/transport_names.h"
#include "base/text/units.h"
#include "proto/text/text.h"
#include "server/callers/join_tokens.h"
#include "server/callers/roles.h"
#include "server/controller/values/uid.h"
#include "service/log/log.h"
#include "service/process/version.h"
#include "service/settings/config_check.h"

namespace remesh::server {

using service::Settings;

namespace {

constexpr auto kLeast = std::chrono::milliseconds(1);  // the minimum of times that cannot be 0
// Less memory does not suffice for plans of some size.
constexpr int64_t kPlanningMemoryLeast = int64_t{16} << 20;
// Half of the default maximum message size of gRPC clients.
constexpr int64_t kPageBytesMax = int64_t{2} << 20;

void AddAddresses(ServerOptions& o, Settings& settings) {
  settings.Section("Addresses");
  settings.AddAddress("listen_address", &o.listen_address,
                      "HOST:PORT on which gRPC is served; port 0: any free port.", {});
  settings.AddAddress("metrics_address", &o.metrics_address,
                      "HOST:PORT on which /metrics, /livez and /readyz are served; port 0: any "
                      "free port; empty: not served.",
                      {.optional = true});
  settings.AddString(
      "port_file", &o.port_file,
      "File to which the ports in use are written, one \"name: value\" per line; empty: none.");
  settings.AddString("log_level", &o.log_level,
                     "Lowest level that is logged: debug, info, warning or error.");
  settings.AddString(
      "log_format", &o.log_format,
      "Format of the log: logfmt, or json, with one object per line and the same keys.");
}

void AddTls(ServerOptions& o, Settings& settings) {
  settings.Section("TLS");
  settings.AddString(
      "tls_certificate_file", &o.tls.certificate,
      "PEM file of the gRPC port's certificate, followed by the intermediate certificates up to "
      "its CA. Set all three TLS files or none. None: no TLS, and every client that reaches the "
      "port may do everything. Changed files are read again at once, or within 10s, or at SIGHUP.");
  settings.AddString("tls_key_file", &o.tls.key,
                     "PEM file of the certificate's private key, without a passphrase.");
  settings.AddString("tls_client_ca_file", &o.tls.ca,
                     "PEM file of the CAs that sign clients' certificates. A client without such a "
                     "certificate is refused; the SPIFFE id of a certificate determines what the "
                     "client may do: see docs/security.md.");
  settings.AddString("tls_trust_domain", &o.tls_trust_domain,
                     "Trust domain of clients: DOMAIN in spiffe://DOMAIN/admin/NAME.");
}

void AddTimes(ServerOptions& o, Settings& settings) {
  settings.Section("Workers and executions");
  settings.AddDuration(
      "heartbeat_interval", &o.heartbeat_interval,
      "Interval between the heartbeats of a worker. Among more than 1,024 workers it "
      "is longer, half of lost_after at most.",
      kLeast);
  settings.AddDuration("lost_after", &o.lost_after, "A worker that is silent for longer is lost.");
  settings.AddDuration("execution_deadline", &o.execution_deadline,
                       "Deadline of executions that set none.", kLeast);
  settings.AddDuration("stall_timeout", &o.stall_timeout,
                       "A move fails if no slice (of 4 MiB at most) of any of its hosts gets "
                       "through for this long; the error names the links. 0s: only its deadline "
                       "ends it.",
                       std::chrono::nanoseconds(0));
  settings.AddDuration("quiesce_timeout", &o.quiesce_timeout,
                       "A worker that takes longer to end an aborted attempt is detached.", kLeast);
  settings.AddInt("windows_ahead", &o.windows_ahead,
                  "Number of windows that are granted beyond those that every host has finished.",
                  1, 1 << 20);
  settings.AddString(
      "join_token_file", &o.join_token_file,
      "File of join tokens of 16 to 1024 characters, one per line. A worker that is unknown, or "
      "that lost its secret, must present one of them. Empty: whoever reaches the server may join "
      "as a worker. The file is read again when it changes.");
  settings.AddString(
      "data_encryption", &o.data_encryption,
      "Encryption of the data that workers send each other: none or aes-256-gcm. aes-256-gcm needs "
      "TLS, because the server sends the keys to the workers. Data then goes by TCP, also between "
      "GPUs; workers with transport ucx cannot take part. Applies to executions that start from "
      "then on.");
  settings.AddInt("states_max", &o.states_max, "Maximum number of states.", 1);
  settings.AddInt("state_entries_max", &o.state_entries_max,
                  "Maximum number of arrays and shards of all states together. The server keeps "
                  "about 600 bytes of memory for each.",
                  1);
  settings.AddInt("finished_executions_max", &o.finished_executions_max,
                  "Number of executions to remember. Beyond it the oldest ended executions are "
                  "forgotten, first those of jobs that have more than their share.",
                  1);
  settings.AddInt("states_per_job", &o.states_per_job,
                  "Maximum number of states of one job; 0: no limit per job.", 0);
  settings.AddBytes("bytes_per_job", &o.bytes_per_job,
                    "Maximum number of bytes that the shards of one job's states may take, summed "
                    "over all hosts; 0: no limit.");
}

void AddPlanning(ServerOptions& o, Settings& settings) {
  settings.Section("Plans");
  settings.AddBytes(
      "plan_cache_bytes", &o.plan_cache_bytes,
      "Memory for plans; beyond it the least recently used plans are evicted. The one "
      "that was used last stays even if it alone takes more.");
  settings.AddInt("plan_cache_entries", &o.plan_cache_entries,
                  "Maximum number of plans in memory. A plan that is bound to other devices counts "
                  "as another plan.",
                  1);
  settings.AddDuration("plan_cache_age", &o.plan_cache_age,
                       "A plan in memory that is not requested for this long is evicted.");
  settings.AddString("plan_store_path", &o.plan_store_path,
                     "File of plans that outlive the server; empty: journal_path + \".plans\". "
                     "Safe to delete while no server runs.");
  settings.AddBytes("plan_store_bytes", &o.plan_store_bytes,
                    "Disk space for plans, compressed; 0: plans are kept in memory only.");
  settings.AddInt("plan_store_entries", &o.plan_store_entries,
                  "Maximum number of plans on disk, counted as in memory.", 1);
  settings.AddDuration("plan_store_age", &o.plan_store_age,
                       "A plan on disk that is not requested for this long is evicted.");
  settings.AddInt("planner_threads", &o.planner_threads,
                  "Number of threads that plan, beside one that plans for executions only. With "
                  "two or more, a single caller never occupies all of them.",
                  1, 1024);
  settings.AddDuration("planning_timeout", &o.planning_timeout,
                       "Planning that takes longer is given up.", kLeast);
  settings.AddBytes("planning_memory_limit", &o.planning_memory_limit,
                    "Planning that needs more memory is given up.");
  settings.AddInt(
      "stream_threads", &o.stream_threads,
      "Number of threads that expand plans into host programs; as many again make other long "
      "answers. They do not wait for readers. One caller uses at most a quarter of each.",
      1, 1024);
}

void AddTopology(ServerOptions& o, Settings& settings) {
  settings.Section("Topology");
  settings.AddObject(
      "topology", &o.topology,
      "Rules that override what workers register, for plans whose request has no topology: "
      "capacities and racks by host name, and the uplinks of racks. hosts: [{match: \"gpu-1-*\", "
      "preset: hgx-h100, parent: rack-1}], domains: [{name: rack-1, egress_bytes_per_second: "
      "400e9, ingress_bytes_per_second: 400e9}]. A host takes preset, nics, nic_bytes_per_second, "
      "fabric_bytes_per_second, nic_message_seconds, fabric_message_seconds, post_seconds, "
      "posting_threads and parent from every rule that matches; later rules override earlier ones. "
      "remeshctl topology list shows the presets.");
}

void AddCallers(ServerOptions& o, Settings& settings) {
  settings.Section("Callers");
  settings.AddDouble(
      "calls_per_second", &o.calls_per_second,
      "Rate at which one identity, or without TLS one address, may request plans, new states and "
      "executions; calls beyond it are refused (RATE_LIMITED). 0: no limit.");
  settings.AddInt("calls_burst", &o.calls_burst,
                  "Number of these calls that a caller may make at once.", 1, 1 << 30);
  settings.AddString(
      "audit_log_file", &o.audit_log_file,
      "File to which one line of JSON is appended for every call that changes something or is "
      "denied; -: stderr; empty: none. A file that is moved away is created again.");
  settings.AddBool("audit_reads", &o.audit_reads, "Also audit calls that only read.");
}

absl::StatusOr<TopologyRules> RulesOf(const ServerOptions& o) {
  v1::TopologyRules rules;
  if (!o.topology.empty()) RETURN_IF_ERROR(proto::ParseText(o.topology, rules));
  return TopologyRules::Make(std::move(rules));
}

absl::Status CheckTimesAndSizes(const ServerOptions& o) {
  if (o.lost_after < 2 * o.heartbeat_interval) {
    return InvalidField("lost_after", FormatDuration(o.lost_after),
                        "must be at least two heartbeat_intervals");
  }
  if (o.stall_timeout > std::chrono::nanoseconds(0) && o.stall_timeout < 2 * o.heartbeat_interval) {
    return InvalidField("stall_timeout", FormatDuration(o.stall_timeout),
                        "must be 0s or at least two heartbeat_intervals, which tell of progress");
  }
  if (o.message_bytes_max < 4096 || o.message_bytes_max > (int64_t{1} << 30)) {
    return InvalidField("message_bytes_max", FormatByteSize(o.message_bytes_max),
                        "must be 4KiB to 1GiB");
  }
  if (o.planning_memory_limit < kPlanningMemoryLeast) {
    return InvalidField("planning_memory_limit", FormatByteSize(o.planning_memory_limit),
                        absl::StrCat("must be at least ", FormatByteSize(kPlanningMemoryLeast)));
  }
  return absl::OkStatus();
}

absl::Status CheckJournal(const ServerOptions& o) {
  for (const auto& [field, uid] : {std::pair{"cluster_uid", o.cluster_uid},
                                   std::pair{"accept_older_journal", o.accept_older_journal}}) {
    if (uid.empty() || IsUid(uid)) continue;
    return InvalidField(field, uid, "must be a UUID such as 123e4567-e89b-42d3-a456-426614174000");
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const ServerOptions& o) {
  RETURN_IF_ERROR(service::CheckAllOrNone(o.tls, TlsFields()));
  if (o.data_encryption != "none" && o.data_encryption != kDataCipher) {
    return InvalidField("data_encryption", o.data_encryption, "must be none or aes-256-gcm");
  }
  if (o.data_encryption == kDataCipher && o.tls.empty()) {
    return InvalidField("data_encryption", o.data_encryption,
                        "needs TLS (tls_certificate_file): without it the keys can be read");
  }
  if (o.tls.empty() || !o.tls_trust_domain.empty()) return absl::OkStatus();
  return InvalidField("tls_trust_domain", "", "must be set with TLS");
}

// The first problem of each kind.
std::vector<absl::Status> ValueProblems(const ServerOptions& o) {
  std::vector<absl::Status> problems = {service::ParseLogLevel(o.log_level).status(),
                                        service::ParseLogFormat(o.log_format).status(),
                                        CheckTimesAndSizes(o),
                                        CheckJournal(o),
                                        CheckTls(o),
                                        AtField("topology", RulesOf(o).status())};
  std::erase_if(problems, [](const absl::Status& status) { return status.ok(); });
  return problems;
}

}  // namespace

service::CertificateFields TlsFields() { return {.ca = "tls_client_ca_file"}; }

void AddSettings(ServerOptions& o, Settings& settings) {
  AddAddresses(o, settings);
  AddTls(o, settings);
  settings.Section("Journal");
  settings.AddString("journal_path", &o.journal_path,
                     "File of states, decisions and the epoch, on a disk that survives restarts of "
                     "this machine. Two files are kept beside it: journal_path + \".head\", which "
                     "reveals that the journal went back in time, and journal_path + \".ballast\", "
                     "16 MiB of reserve for decisions when the disk is full.");
  settings.AddString(
      "cluster_uid", &o.cluster_uid,
      "UUID of the cluster whose workers this server commands. Empty: the UUID in the journal; a "
      "new journal makes one. Set it when a new journal replaces a lost one.");
  settings.AddString("accept_older_journal", &o.accept_older_journal,
                     "The journal's uid, which lets the server start although the journal went "
                     "back in time, as a restored copy has. States that changed since are LOST; "
                     "nothing is freed. Set it for one start only.");
  settings.AddRetired("recover_from_workers", "false");
  AddTimes(o, settings);
  AddTopology(o, settings);
  AddPlanning(o, settings);
  AddCallers(o, settings);
  settings.Section("gRPC");
  settings.AddInt("connections_per_address", &o.connections_per_address,
                  "Maximum number of open connections of one address (for IPv6, of one /64). Raise "
                  "it where many workers connect through one address.",
                  1, 1 << 20);
  settings.AddBytes("message_bytes_max", &o.message_bytes_max,
                    "Maximum size of a message that is accepted or sent.");
  settings.AddDuration("keepalive_time", &o.keepalive_time,
                       "A connection that is silent for this long is probed.", kLeast);
  settings.AddDuration("keepalive_timeout", &o.keepalive_timeout,
                       "A connection whose probe is not answered within this time is closed.",
                       kLeast);
  settings.AddDuration("max_connection_age", &o.max_connection_age,
                       "A client's connection that is older takes no new calls, and the client "
                       "opens another one; calls that run on it may continue. 0: no limit.");
  settings.AddDuration(
      "drain", &o.drain,
      "Time at SIGTERM for executions to end by themselves. Executions that are still undecided "
      "then end FAILED, with the source intact. If no execution runs, the server does not wait.");
  settings.AddDuration("drain_delay", &o.drain_delay,
                       "Time between reporting NOT_SERVING and the end of service at shutdown; set "
                       "it longer than the period of a readiness probe.");
  settings.AddDuration("shutdown_grace", &o.shutdown_grace,
                       "Time at shutdown for running calls to end.");
  settings.Live({"log_level", "log_format", "execution_deadline", "data_encryption", "states_max",
                 "states_per_job", "bytes_per_job", "finished_executions_max", "topology",
                 "plan_cache_bytes", "plan_cache_entries", "plan_cache_age", "calls_per_second",
                 "calls_burst", "audit_log_file", "audit_reads"});
}

absl::Status Validate(const ServerOptions& o) {
  for (const absl::Status& problem : ValueProblems(o)) RETURN_IF_ERROR(problem);
  return absl::OkStatus();
}

std::vector<absl::Status> Problems(const ServerOptions& o) {
  std::vector<absl::Status> problems = ValueProblems(o);
  service::CheckReadable("join_token_file", o.join_token_file, problems,
                         [&] { return ReadJoinTokens(o.join_token_file).status(); });
  service::CheckCertificates(o.tls, TlsFields(), problems);
  return problems;
}

Core::Options CoreOptionsOf(const ServerOptions& o) {
  Core::Options core;
  core.controller = {
      .heartbeat_interval = o.heartbeat_interval,
      .lost_after = o.lost_after,
      .execution_deadline = o.execution_deadline,
      .stall_timeout = o.stall_timeout,
      .quiesce_timeout = o.quiesce_timeout,
      .grant_ahead = static_cast<int32_t>(o.windows_ahead),
      .page_bytes_max = static_cast<size_t>(std::min(kPageBytesMax, o.message_bytes_max / 2)),
      .states_max = static_cast<size_t>(o.states_max),
      .state_entries_max = o.state_entries_max,
      .states_per_job = o.states_per_job,
      .bytes_per_job = o.bytes_per_job,
      .encrypts_data = o.data_encryption == kDataCipher,
      .finished_executions_max = static_cast<size_t>(o.finished_executions_max),
      .topology_rules = *RulesOf(o),
      .version = std::string(service::kVersion)};
  core.message_bytes_max = static_cast<size_t>(o.message_bytes_max);
  core.plan_cache_bytes = o.plan_cache_bytes;
  core.plan_cache_entries = o.plan_cache_entries;
  core.plan_cache_age = absl::FromChrono(o.plan_cache_age);
  if (o.plan_store_bytes > 0) {
    core.plan_store.path =
        o.plan_store_path.empty() ? o.journal_path + ".plans" : o.plan_store_path;
  }
  core.plan_store.limits = {.max_bytes = o.plan_store_bytes,
                            .max_entries = o.plan_store_entries,
                            .max_age = absl::FromChrono(o.plan_store_age)};
  core.planner_threads = static_cast<int>(o.planner_threads);
  core.planning.timeout = absl::FromChrono(o.planning_timeout);
  core.planning.memory_bytes = o.planning_memory_limit;
  core.stream_threads = static_cast<int>(o.stream_threads);
  return core;
}

LiveOptions LiveOptionsOf(const ServerOptions& o) {
  return {.execution_deadline = o.execution_deadline,
          .states_max = static_cast<size_t>(o.states_max),
          .states_per_job = o.states_per_job,
          .bytes_per_job = o.bytes_per_job,
          .encrypts_data = o.data_encryption == kDataCipher,
          .finished_executions_max = static_cast<size_t>(o.finished_executions_max),
          .join_token_hashes = {},
          .topology_rules = *RulesOf(o)};
}

MemoryTier::Limits PlanLimitsOf(const ServerOptions& o) {
  return {.max_bytes = o.plan_cache_bytes,
          .max_entries = o.plan_cache_entries,
          .max_age = absl::FromChrono(o.plan_cache_age)};
}

CallLimits::Options CallLimitsOf(const ServerOptions& o) {
  return {.per_second = o.calls_per_second, .burst = static_cast<double>(o.calls_burst)};
}

Server::Options GrpcOptionsOf(const ServerOptions& o) {
  Server::Options grpc;
  grpc.listen_address = o.listen_address;
  grpc.connections_per_address = static_cast<int>(o.connections_per_address);
  grpc.message_bytes_max = static_cast<int>(o.message_bytes_max);
  grpc.keepalive_time = o.keepalive_time;
  grpc.keepalive_timeout = o.keepalive_timeout;
  grpc.max_connection_age = o.max_connection_age;
  grpc.shutdown_grace = o.shutdown_grace;
  grpc.limits = CallLimitsOf(o);
  if (!o.tls.empty()) grpc.authorizer = AuthorizeByRole(o.tls_trust_domain);
  return grpc;
}

}  // namespace remesh::server
