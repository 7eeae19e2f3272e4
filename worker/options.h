// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/settings/settings.h"
#include "service/tls/certificates.h"
#include "worker/gpu_kind.h"
#include "worker/local/host_facts.h"
#include "worker/local/socket_gate.h"

namespace remesh::worker {

// What a worker whose settings name no preset is taken for.
inline constexpr char kAssumedPreset[] = "cpu-100g";

// The worker's settings.
struct WorkerOptions {
  std::string host;
  std::string server_address = "127.0.0.1:7070";
  std::string advertise_server;  // empty: server_address
  std::chrono::nanoseconds keepalive_time = std::chrono::seconds(5);
  std::chrono::nanoseconds keepalive_timeout = std::chrono::seconds(15);
  service::CertificateFiles tls;
  std::string tls_server_name;
  std::string join_token_file;
  std::string join_token;  // not a setting: what join_token_file held at the start
  int64_t devices = 1;
  std::vector<std::string> device_ids;
  std::string preset;  // supplies those of the next seven that are 0; "": kAssumedPreset
  bool capacities_assumed = false;  // not a setting: whether no setting says the capacities
  double nic_bytes_per_second = 0;
  int64_t nics = 0;
  double fabric_bytes_per_second = 0;
  double nic_message_seconds = 0;  // 0, as all costs of messages: the server's for the transport
  double fabric_message_seconds = 0;
  double post_seconds = 0;
  int64_t posting_threads = 0;
  std::string parent;

  std::string buffer_directory = "/dev/shm/remesh";
  int64_t memory_limit_bytes = 0;
  std::chrono::nanoseconds recycle_idle = std::chrono::seconds(60);
  std::string socket_path = "/run/remesh/worker.sock";
  std::vector<std::string> socket_allowed_uids;
  std::vector<std::string> socket_allowed_gids;
  std::string socket_jobs_by_uid;  // JSON; empty: none

  std::string transport = "tcp";
  std::string device = "host";
  std::vector<GpuKind> gpus;  // not a setting: what the binary can drive
  std::string device_buffers = "device";
  std::string keeper_socket;
  std::string nccl_library = "libnccl.so.2";
  std::chrono::nanoseconds nccl_idle = std::chrono::minutes(10);
  std::string data_bind_address;
  std::string ucx_tls = "tcp";
  std::string ucx_net_devices;
  int64_t copy_threads = 2;
  int64_t staging_bytes = int64_t{64} << 20;
  int64_t slices_in_flight = 32;
  std::string recheck_sources = "if_open";

  std::chrono::nanoseconds drain = std::chrono::seconds(30);
  std::string metrics_address = "127.0.0.1:0";
  std::string port_file;
  std::string log_level = "info";
  std::string log_format = "logfmt";
};

// Adds one row for each option. `options` must outlive `settings`.
void AddSettings(WorkerOptions& options, service::Settings& settings);

// Whether the server assigns the device ids, which `device_ids: auto` asks for.
bool HasAssignedIds(const WorkerOptions& options);

// Fills in what the settings leave to the machine (host, devices, device ids and the bind address)
// or to the preset (capacities), and the join token. INVALID_ARGUMENT naming the key of a setting
// that is not possible.
absl::Status Complete(WorkerOptions& options);
// How trainers of this host reach the server. With TLS they check the same name as the worker, also
// if they dial another.
AdvertisedServer ServerForTrainers(const WorkerOptions& options);
// The rules for who may call on the socket. INVALID_ARGUMENT: see MakeSocketRules().
absl::StatusOr<SocketRules> SocketRulesOf(const WorkerOptions& options);
// The first error of Complete() that can be found without network and files.
absl::Status ValidateHere(WorkerOptions options);
// For --check-config: all errors that can be found without network, and those of the files that the
// settings name.
std::vector<absl::Status> Problems(WorkerOptions options);

}  // namespace remesh::worker
