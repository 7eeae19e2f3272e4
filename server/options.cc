// SPDX-License-Identifier: Apache-2.0
#include "server/options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/convert/text.h"
#include "server/join_tokens.h"
#include "server/roles.h"
#include "service/config_check.h"
#include "service/log.h"
#include "service/units.h"
#include "service/version.h"

namespace remesh::server {

using service::FormatByteSize;
using service::Settings;

namespace {

constexpr auto kLeast = std::chrono::milliseconds(1);  // of times that cannot be nothing
// Less is not enough for plans of some size.
constexpr std::string_view kAes = "aes-256-gcm";
constexpr int64_t kPlanningMemoryLeast = int64_t{16} << 20;
// Half of what gRPC's clients take unless they are told otherwise.
constexpr int64_t kPageBytesMax = int64_t{2} << 20;

void AddAddresses(ServerOptions& o, Settings& settings) {
  settings.Section("Addresses");
  settings.AddAddress("listen_address", &o.listen_address,
                      "Where gRPC is served, HOST:PORT; port 0: any.", {});
  settings.AddAddress("metrics_address", &o.metrics_address,
                      "Where /metrics, /livez and /readyz are served, HOST:PORT; port 0: any; "
                      "empty: nowhere.",
                      {.optional = true});
  settings.AddString("port_file", &o.port_file,
                     "File to write the ports in use to, one \"name: value\" a line; empty: none.");
  settings.AddString("log_level", &o.log_level, "debug, info, warning or error.");
  settings.AddString("log_format", &o.log_format,
                     "How lines of the log are written: logfmt, or json, an object a line of the "
                     "same keys.");
}

void AddTls(ServerOptions& o, Settings& settings) {
  settings.Section("TLS");
  settings.AddString(
      "tls_certificate_file", &o.tls.certificate,
      "PEM file of the gRPC port's certificate, then of those between it and its CA. "
      "All three files or none; none: no TLS, and whoever reaches the port may do "
      "everything. Files that change are read again at once, or within 10s, or at SIGHUP.");
  settings.AddString("tls_key_file", &o.tls.key, "PEM file of its key, without a passphrase.");
  settings.AddString("tls_client_ca_file", &o.tls.ca,
                     "PEM file of the CAs that sign clients' certificates. A client without one is "
                     "refused; what it may do, its SPIFFE id says: see docs/security.md.");
  settings.AddString("tls_trust_domain", &o.tls_trust_domain,
                     "The trust domain of clients: DOMAIN in spiffe://DOMAIN/admin/NAME.");
}

void AddTimes(ServerOptions& o, Settings& settings) {
  settings.Section("Workers and executions");
  settings.AddDuration("heartbeat_interval", &o.heartbeat_interval,
                       "Time between the heartbeats of a worker.", kLeast);
  settings.AddDuration("lost_after", &o.lost_after, "A worker that is silent for longer is lost.");
  settings.AddDuration("execution_deadline", &o.execution_deadline,
                       "Deadline of executions that name none.", kLeast);
  settings.AddDuration("quiesce_timeout", &o.quiesce_timeout,
                       "A worker that takes longer to end an aborted attempt is detached.", kLeast);
  settings.AddInt("windows_ahead", &o.windows_ahead,
                  "Windows that are granted beyond those done everywhere.", 1, 1 << 20);
  settings.AddString("join_token_file", &o.join_token_file,
                     "File of tokens of 16 to 1024 characters, one a line: a worker that is not "
                     "known, or lost its secret, must have one of them. Empty: whoever reaches the "
                     "server may be a worker. The file is read again when it changes.");
  settings.AddString("data_encryption", &o.data_encryption,
                     "What workers send each other: none, or aes-256-gcm, which needs TLS, for the "
                     "keys come with what the server tells workers, and transport tcp on each of "
                     "them. Holds for executions that begin from now on.");
  settings.AddInt("states_max", &o.states_max, "Most states that may exist.", 1);
  settings.AddInt("finished_executions_max", &o.finished_executions_max,
                  "Executions to remember; the oldest that ended go first, of jobs with more than "
                  "their share.",
                  1);
  settings.AddInt("states_per_job", &o.states_per_job,
                  "Most states that one job may have; 0: no limit of its own.", 0);
  settings.AddBytes("bytes_per_job", &o.bytes_per_job,
                    "Most bytes that the shards of one job's states may take on all hosts "
                    "together; 0: no limit.");
}

void AddPlanning(ServerOptions& o, Settings& settings) {
  settings.Section("Plans");
  settings.AddBytes("plan_cache_bytes", &o.plan_cache_bytes,
                    "Memory for plans; the least recently used go first.");
  settings.AddInt("plan_cache_entries", &o.plan_cache_entries,
                  "Most plans in memory; one bound to other devices counts as another.", 1);
  settings.AddDuration("plan_cache_age", &o.plan_cache_age,
                       "Plans in memory that nobody asks for are dropped after this time.");
  settings.AddString("plan_store_path", &o.plan_store_path,
                     "File of plans that outlive the server; empty: journal_path + \".plans\". "
                     "Safe to delete while no server runs.");
  settings.AddBytes("plan_store_bytes", &o.plan_store_bytes,
                    "Disk for plans, compressed; 0: plans are kept in memory only.");
  settings.AddInt("plan_store_entries", &o.plan_store_entries,
                  "Most plans on disk, counted as in memory.", 1);
  settings.AddDuration("plan_store_age", &o.plan_store_age,
                       "Plans on disk that nobody asks for are dropped after this time.");
  settings.AddInt(
      "planner_threads", &o.planner_threads,
      "Threads that plan, beside one for executions alone. From 2 on one of them is left "
      "to others, however much one caller asks.",
      1, 1024);
  settings.AddDuration("planning_timeout", &o.planning_timeout,
                       "A plan that takes longer is given up.", kLeast);
  settings.AddBytes("planning_memory_limit", &o.planning_memory_limit,
                    "A plan that takes more memory while it is made is given up.");
  settings.AddInt(
      "stream_threads", &o.stream_threads,
      "Threads that expand plans into host programs, and as many again that send other long "
      "answers. They wait for their readers: one caller has a quarter of either at most.",
      1, 1024);
}

void AddTopology(ServerOptions& o, Settings& settings) {
  settings.Section("Topology");
  settings.AddObject(
      "topology", &o.topology,
      "What holds for workers over what they register, for plans that name no topology of their "
      "own: capacities and racks by host name, and the racks' uplinks. hosts: [{match: "
      "\"gpu-1-*\", "
      "preset: hgx-h100, parent: rack-1}], domains: [{name: rack-1, egress_bytes_per_second: "
      "400e9, "
      "ingress_bytes_per_second: 400e9}]. A host takes preset, nics, nic_bytes_per_second, "
      "fabric_bytes_per_second and parent from every rule that matches, later ones over earlier "
      "ones; presets: remeshctl topology list.");
}

void AddCallers(ServerOptions& o, Settings& settings) {
  settings.Section("Callers");
  settings.AddDouble("calls_per_second", &o.calls_per_second,
                     "How often one identity, or without TLS one address, may ask for plans, new "
                     "states and executions; more is refused (RATE_LIMITED). 0: no limit.");
  settings.AddInt("calls_burst", &o.calls_burst, "How many of those calls it may make at once.", 1,
                  1 << 30);
  settings.AddString("audit_log_file", &o.audit_log_file,
                     "File to append a line of JSON to for every call that changes something or is "
                     "denied; -: stderr; empty: none. One that is moved away is made anew.");
  settings.AddBool("audit_reads", &o.audit_reads, "Audit calls that only read, too.");
}

absl::StatusOr<TopologyRules> RulesOf(const ServerOptions& o) {
  v1::TopologyRules rules;
  if (!o.topology.empty()) RETURN_IF_ERROR(proto::ParseText(o.topology, rules));
  return TopologyRules::Make(std::move(rules));
}

absl::Status CheckTimesAndSizes(const ServerOptions& o) {
  if (o.lost_after < 2 * o.heartbeat_interval) {
    return InvalidField("lost_after", service::FormatDuration(o.lost_after),
                        "must be at least two heartbeat_intervals");
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

absl::Status CheckTls(const ServerOptions& o) {
  RETURN_IF_ERROR(service::CheckAllOrNone(o.tls, TlsFields()));
  if (o.data_encryption != "none" && o.data_encryption != kAes) {
    return InvalidField("data_encryption", o.data_encryption, "must be none or aes-256-gcm");
  }
  if (o.data_encryption == kAes && o.tls.empty()) {
    return InvalidField("data_encryption", o.data_encryption,
                        "needs TLS (tls_certificate_file): without it the keys can be read");
  }
  if (o.tls.empty() || !o.tls_trust_domain.empty()) return absl::OkStatus();
  return InvalidField("tls_trust_domain", "", "must be set with TLS");
}

// The first of each kind.
std::vector<absl::Status> ValueProblems(const ServerOptions& o) {
  std::vector<absl::Status> problems = {
      service::ParseLogLevel(o.log_level).status(), service::ParseLogFormat(o.log_format).status(),
      CheckTimesAndSizes(o), CheckTls(o), AtField("topology", RulesOf(o).status())};
  std::erase_if(problems, [](const absl::Status& status) { return status.ok(); });
  return problems;
}

}  // namespace

service::CertificateFields TlsFields() { return {.ca = "tls_client_ca_file"}; }

void AddSettings(ServerOptions& o, Settings& settings) {
  AddAddresses(o, settings);
  AddTls(o, settings);
  settings.Section("Journal");
  settings.AddString(
      "journal_path", &o.journal_path,
      "File of states, decisions and the epoch, on a disk that survives this machine's restarts. "
      "Beside it stand journal_path + \".head\", by which a journal that went back is noticed, and "
      "\".ballast\", 16 MiB for decisions on a full disk.");
  settings.AddString("cluster_uid", &o.cluster_uid,
                     "A UUID: whose workers these are. Empty: as the journal has it; a new journal "
                     "makes one. Give it when a lost journal is made anew.");
  settings.AddString(
      "accept_older_journal", &o.accept_older_journal,
      "The journal's uid: start although it went back in time, as a restored copy has. States that "
      "went on since are LOST, nothing is freed. For one start.");
  settings.AddBool(
      "recover_from_workers", &o.recover_from_workers,
      "Start although the journal is damaged, from what the workers hold. Not built yet: refused.");
  AddTimes(o, settings);
  AddTopology(o, settings);
  AddPlanning(o, settings);
  AddCallers(o, settings);
  settings.Section("gRPC");
  settings.AddInt("connections_per_address", &o.connections_per_address,
                  "Most connections that one address (of IPv6, one /64) may have open; more where "
                  "many workers come through one.",
                  1, 1 << 20);
  settings.AddBytes("message_bytes_max", &o.message_bytes_max,
                    "Largest message that is accepted or sent.");
  settings.AddDuration("keepalive_time", &o.keepalive_time,
                       "Silence on a connection after which it is probed.", kLeast);
  settings.AddDuration("keepalive_timeout", &o.keepalive_timeout,
                       "Time a probe may take before the connection ends.", kLeast);
  settings.AddDuration(
      "max_connection_age", &o.max_connection_age,
      "A client's connection that is older takes no new calls, and the client makes "
      "another; what runs on it may go on. 0: never.");
  settings.AddDuration(
      "drain", &o.drain,
      "Time that executions get to end by themselves at SIGTERM; then those that are "
      "not decided end FAILED, source intact. Nothing runs: no time at all.");
  settings.AddDuration("drain_delay", &o.drain_delay,
                       "Time between NOT_SERVING and the end of service at shutdown; longer than a "
                       "readiness period.");
  settings.AddDuration("shutdown_grace", &o.shutdown_grace,
                       "Time that calls under way get at shutdown.");
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
      .quiesce_timeout = o.quiesce_timeout,
      .grant_ahead = static_cast<int32_t>(o.windows_ahead),
      .page_bytes_max = static_cast<size_t>(std::min(kPageBytesMax, o.message_bytes_max / 2)),
      .states_max = static_cast<size_t>(o.states_max),
      .states_per_job = o.states_per_job,
      .bytes_per_job = o.bytes_per_job,
      .encrypts_data = o.data_encryption == kAes,
      .finished_executions_max = static_cast<size_t>(o.finished_executions_max),
      .topology_rules = *RulesOf(o),
      .version = std::string(service::kVersion)};
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
          .encrypts_data = o.data_encryption == kAes,
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
