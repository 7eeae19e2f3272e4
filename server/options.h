// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "server/core.h"
#include "server/server.h"
#include "service/settings/settings.h"
#include "service/tls/certificates.h"

namespace remesh::server {

// The settings of remesh-server, with their defaults; AddSettings() documents each.
struct ServerOptions {
  std::string listen_address = "127.0.0.1:7070";
  std::string metrics_address = "127.0.0.1:7071";
  std::string port_file;
  std::string log_level = "info";
  std::string log_format = "logfmt";
  service::CertificateFiles tls;
  std::string tls_trust_domain = "remesh.local";
  std::string join_token_file;
  std::string journal_path = "remesh-journal.db";
  std::string cluster_uid;
  std::string accept_older_journal;

  std::chrono::nanoseconds heartbeat_interval = std::chrono::seconds(1);
  std::chrono::nanoseconds lost_after = std::chrono::seconds(5);
  std::chrono::nanoseconds execution_deadline = std::chrono::seconds(300);
  std::chrono::nanoseconds stall_timeout = std::chrono::seconds(60);
  std::chrono::nanoseconds quiesce_timeout = std::chrono::seconds(4);
  int64_t windows_ahead = 8;
  int64_t states_max = 10'000;
  int64_t state_entries_max = 4'000'000;
  int64_t finished_executions_max = 1000;
  std::string data_encryption = "none";
  int64_t states_per_job = 0;
  int64_t bytes_per_job = 0;

  std::string topology;  // v1::TopologyRules as JSON; empty: none

  int64_t plan_cache_bytes = int64_t{256} << 20;
  int64_t plan_cache_entries = 100'000;
  std::chrono::nanoseconds plan_cache_age = std::chrono::hours(24 * 7);
  std::string plan_store_path;
  int64_t plan_store_bytes = int64_t{1} << 30;
  int64_t plan_store_entries = 100'000;
  std::chrono::nanoseconds plan_store_age = std::chrono::hours(24 * 30);
  int64_t planner_threads = 2;
  std::chrono::nanoseconds planning_timeout = std::chrono::seconds(60);
  int64_t planning_memory_limit = int64_t{1} << 30;
  int64_t stream_threads = 8;

  double calls_per_second = 10'000;
  int64_t calls_burst = 20'000;
  std::string audit_log_file;
  bool audit_reads = false;

  int64_t connections_per_address = 256;
  int64_t message_bytes_max = int64_t{64} << 20;
  std::chrono::nanoseconds keepalive_time = std::chrono::seconds(3);
  std::chrono::nanoseconds keepalive_timeout = std::chrono::seconds(5);
  std::chrono::nanoseconds max_connection_age = std::chrono::hours(1);
  std::chrono::nanoseconds drain = std::chrono::seconds(30);
  std::chrono::nanoseconds drain_delay = std::chrono::seconds(0);
  std::chrono::nanoseconds shutdown_grace = std::chrono::seconds(5);
};

// The names of the settings in `tls`.
service::CertificateFields TlsFields();

void AddSettings(ServerOptions& options, service::Settings& settings);

// INVALID_ARGUMENT when values contradict each other.
absl::Status Validate(const ServerOptions& options);
// For --check-config: the errors of Validate(), and those of the files that settings name.
std::vector<absl::Status> Problems(const ServerOptions& options);

// REQUIRES: Validate(options).
Core::Options CoreOptionsOf(const ServerOptions& options);
LiveOptions LiveOptionsOf(const ServerOptions& options);  // without join tokens
MemoryTier::Limits PlanLimitsOf(const ServerOptions& options);
CallLimits::Options CallLimitsOf(const ServerOptions& options);
Server::Options GrpcOptionsOf(const ServerOptions& options);

}  // namespace remesh::server
