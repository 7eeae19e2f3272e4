// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/transport_names.h"
#include "client/commands/commands.h"
#include "client/nearest_name.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::client {
namespace {

using WorkerStub = v1::WorkerService::Stub;

struct WorkersOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string name, state, state_uid, phase;
  bool yes = false;

  std::unique_ptr<WorkerStub> Connect() const {
    return v1::WorkerService::NewStub(ConnectServer(server));
  }
};

std::string NameOf(const WorkersOptions& options) { return WithPrefix("workers/", options.name); }

std::string DeviceIds(const v1::Register& registration) {
  std::string ids;
  for (const v1::WorkerDevice& device : registration.devices()) {
    absl::StrAppend(&ids, ids.empty() ? "" : ",", device.id());
  }
  return OrDash(ids);
}

std::string Transports(const v1::Register& registration) {
  std::string text;
  for (const v1::DataAddress& address : registration.data_addresses()) {
    // The same address again, for encrypted data; -o yaml shows it.
    if (absl::EndsWith(address.transport(), kEncryptedTransport)) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", address.transport(), "=", address.address());
  }
  return OrDash(text);
}

// The generations that the worker holds, as "jobs/a/states/b@3".
std::string Holds(const v1::Register& registration) {
  std::string text;
  for (const v1::StateManifest& manifest : registration.manifests()) {
    absl::StrAppend(&text, text.empty() ? "" : ",", manifest.state(), "@", manifest.generation());
  }
  return OrDash(text);
}

// "READY", for SHARD_PHASE_READY.
std::string PhaseOf(const v1::StateManifest& manifest) {
  const std::string& name = v1::ShardPhase_Name(manifest.phase());
  return std::string(absl::StripPrefix(name, "SHARD_PHASE_"));
}

// "3/4". A generation that is READY may have unsealed shards, which a trainer writes again.
std::string SealedOf(const v1::StateManifest& manifest) {
  return absl::StrCat(manifest.sealed_shards(), "/", manifest.total_shards());
}

// A server of an earlier version tells no phase.
const char* PhaseOf(const v1::Worker& worker) {
  if (worker.phase() == v1::Worker::AWAY) return "AWAY";
  return worker.alive() ? "ALIVE" : "LOST";
}

Table Rows(const google::protobuf::RepeatedPtrField<v1::Worker>& workers) {
  Table table({"NAME", "PHASE", "DRAINED", "INCARNATION", "DEVICES", "STATES", "BYTES", "OWED",
               "VERSION", "DATA", "LAST HEARTBEAT"},
              {"HOLDS", "BOOT ID"});
  for (const v1::Worker& worker : workers) {
    const v1::Register& r = worker.registration();
    int64_t bytes = 0;
    for (const v1::StateManifest& manifest : r.manifests()) bytes += manifest.bytes();
    table.AddRow({worker.name(), PhaseOf(worker), worker.drained() ? "yes" : "no",
                  absl::StrCat(r.incarnation()), DeviceIds(r), absl::StrCat(r.manifests_size()),
                  FormatBytes(bytes), absl::StrCat(worker.owed_size()), OrDash(r.version()),
                  Transports(r), FormatTime(worker.last_heartbeat_time()), Holds(r),
                  OrDash(r.boot_id())});
  }
  return table;
}

// Keeps the workers in the phase of this name; "": all.
void KeepInPhase(const std::string& phase,
                 google::protobuf::RepeatedPtrField<v1::Worker>& workers) {
  const auto is_other = [&](const v1::Worker& worker) { return PhaseOf(worker) != phase; };
  if (phase.empty()) return;
  workers.erase(std::remove_if(workers.begin(), workers.end(), is_other), workers.end());
}

absl::StatusOr<v1::ListWorkersResponse> AllWorkers(const WorkersOptions& options) {
  v1::ListWorkersRequest request;
  request.set_page_size(1000);
  return CallAllPages(options.server, *options.Connect(), &WorkerStub::ListWorkers, request);
}

absl::Status ListWorkers(const WorkersOptions& options) {
  ASSIGN_OR_RETURN(v1::ListWorkersResponse response, AllWorkers(options));
  KeepInPhase(options.phase, *response.mutable_workers());
  Print(options.format, response, [&] { return Rows(response.workers()); });
  return absl::OkStatus();
}

absl::Status Get(const WorkersOptions& options) {
  ASSIGN_OR_RETURN(const v1::ListWorkersResponse response, AllWorkers(options));
  for (const v1::Worker& worker : response.workers()) {
    if (worker.name() != NameOf(options)) continue;
    Print(options.format, worker, [&] {
      v1::ListWorkersResponse one;
      *one.add_workers() = worker;
      return Rows(one.workers());
    });
    return absl::OkStatus();
  }
  const std::string name = NameOf(options);
  const absl::Status absent =
      MakeError(absl::StatusCode::kNotFound, absl::StrCat(name, " does not exist"),
                {.reason = "WORKER_NOT_FOUND", .metadata = {{"name", name}}});
  return WithNearestName(absent, options.server);
}

absl::Status Forget(const WorkersOptions& options) {
  v1::ForgetWorkerRequest request;
  request.set_name(NameOf(options));
  return Call(options.server, *options.Connect(), &WorkerStub::ForgetWorker, request).status();
}

// Lists what workers keep because nothing proves it free, with the command that frees it.
absl::Status Owed(const WorkersOptions& options) {
  ASSIGN_OR_RETURN(const v1::ListWorkersResponse response, AllWorkers(options));
  v1::ListWorkersResponse owing;
  for (const v1::Worker& worker : response.workers()) {
    if (worker.owed_size() > 0) *owing.add_workers() = worker;
  }
  Print(options.format, owing, [&] {
    Table table(
        {"HOST", "STATE", "UID", "GENERATION", "PHASE", "SEALED", "WRITE", "BYTES", "KEPT BECAUSE"},
        {});
    for (const v1::Worker& worker : owing.workers()) {
      for (const v1::OwedShards& owed : worker.owed()) {
        const v1::StateManifest& m = owed.manifest();
        table.AddRow({worker.registration().host(), m.state(), OrDash(m.state_uid()),
                      absl::StrCat(m.generation()), PhaseOf(m), SealedOf(m), OrDash(m.write()),
                      FormatBytes(m.bytes()), owed.reason()});
      }
    }
    return table;
  });
  return absl::OkStatus();
}

absl::Status Reset(const WorkersOptions& options) {
  v1::ResetWorkerRequest request;
  request.set_name(NameOf(options));
  return Call(options.server, *options.Connect(), &WorkerStub::ResetWorker, request).status();
}

absl::Status Drain(const WorkersOptions& options) {
  v1::DrainWorkerRequest request;
  request.set_name(NameOf(options));
  RETURN_IF_ERROR(
      Call(options.server, *options.Connect(), &WorkerStub::DrainWorker, request).status());
  return Get(options);  // shows what is still to be moved
}

absl::Status Undrain(const WorkersOptions& options) {
  v1::UndrainWorkerRequest request;
  request.set_name(NameOf(options));
  return Call(options.server, *options.Connect(), &WorkerStub::UndrainWorker, request).status();
}

// What was lost with a generation that was discarded.
std::string LostWith(const v1::DiscardShardsResponse& response, int64_t generation) {
  for (const v1::OwedShards& last : response.last_copies()) {
    if (last.manifest().generation() != generation) continue;
    return absl::StrCat("perhaps the last copy: ", last.reason());
  }
  return "nothing: the state is whole without it";
}

absl::Status Discard(const WorkersOptions& options) {
  v1::DiscardShardsRequest request;
  request.set_name(NameOf(options));
  request.set_state(options.state);
  request.set_state_uid(options.state_uid);
  request.set_even_last_copy(options.yes);
  ASSIGN_OR_RETURN(const v1::DiscardShardsResponse response,
                   Call(options.server, *options.Connect(), &WorkerStub::DiscardShards, request));
  Print(options.format, response, [&] {
    Table table({"STATE", "GENERATION", "BYTES", "LOST"}, {});
    for (const v1::StateManifest& m : response.discarded()) {
      table.AddRow({m.state(), absl::StrCat(m.generation()), FormatBytes(m.bytes()),
                    LostWith(response, m.generation())});
    }
    return table;
  });
  return absl::OkStatus();
}

}  // namespace

void AddWorkers(CLI::App& app, Command& command) {
  CLI::App* workers = app.add_subcommand("workers", "Workers that the server has seen");
  workers->require_subcommand(1);
  const auto add = [&](const char* verb, const char* help,
                       absl::Status (*run)(const WorkersOptions&)) {
    const auto [sub, options] = AddVerb(*workers, command, verb, help, run);
    if (run != ListWorkers && run != Owed) AddName(*sub, kWorkerNames, options->name);
    if (run == ListWorkers) {
      sub->add_option("--phase", options->phase, "Only those in this phase")
          ->transform(OneOf({"ALIVE", "LOST", "AWAY"}, /*ignore_case=*/true));
    }
    if (run == Discard) {
      AddName(*sub, kStateNames, options->state, "STATE");
      sub->add_option("UID", options->state_uid, "Uid of one of the states of that name")
          ->required();
      sub->add_flag("--yes", options->yes,
                    "Discard even what may be the last copy. Save it first: remeshctl get "
                    "--generation");
    }
  };
  add("list", "List workers, those away included", ListWorkers);
  add("get", "Show a worker", Get);
  add("drain", "Place nothing new on a host, and show what it still holds", Drain);
  add("undrain", "Place new states on a drained host again", Undrain);
  add("forget", "Drop a worker that will not come back; what it held is lost", Forget);
  add("reset",
      "Admit a host that lost its secret, as when it was reinstalled, at its worker's next try",
      Reset);
  add("owed",
      "List shards that no state claims, which workers keep until they are known to be free", Owed);
  add("discard", "Free what `owed` lists of one state on one worker; the last copy only with --yes",
      Discard);
}

}  // namespace remesh::client
