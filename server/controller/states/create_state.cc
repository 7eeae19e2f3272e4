// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/create_state.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/states/state_labels.h"
#include "server/controller/states/write_once.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

// Most bytes that the worker's buffers may take. 0: it did not say, or they are in GPUs.
int64_t BufferBytes(const v1::Register& registration) {
  int64_t bytes = 0;
  for (const v1::WorkerDevice& device : registration.devices()) {
    if (device.kind() != v1::WorkerDevice::KIND_HOST || device.memory_bytes() <= 0) return 0;
    bytes = AddBytes(bytes, device.memory_bytes());
  }
  return bytes;
}

// Most bytes of the state that the host may hold: in the worker's buffers or, unless it is written
// once, lent by a trainer, which takes nothing of those. 0: not known.
int64_t MemoryOf(const v1::Register& registration, const v1::State& state) {
  const int64_t buffers = BufferBytes(registration);
  if (buffers == 0 || state.write_once()) return buffers;
  const int64_t lendable = registration.lendable_bytes();
  return lendable > 0 ? std::max(buffers, lendable) : 0;
}

// RESOURCE_EXHAUSTED (HOST_MEMORY) if the host could not hold its part of the state even if it held
// nothing else.
absl::Status CheckMemory(const WorkerRegistry& workers, const std::string& host,
                         const v1::State& state, int64_t needed) {
  const int64_t memory = MemoryOf(workers.Find(host)->registration, state);
  if (memory == 0 || needed <= memory) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("host ", host, " would hold ", needed, " bytes of the state, and has room for ",
                   memory,
                   " at most (memory_limit_bytes or the file system of buffer_directory, and the "
                   "machine's memory): spread the state over more hosts"),
      {.reason = "HOST_MEMORY",
       .metadata = {{"host", host},
                    {"needed_bytes", absl::StrCat(needed)},
                    {"memory_bytes", absl::StrCat(memory)}}});
}

}  // namespace

absl::Status WhyMisfit(const absl::Status& misfit, const std::vector<std::string>& awaited) {
  constexpr size_t kNamed = 16;
  if (awaited.empty()) return misfit;
  const size_t named = std::min(awaited.size(), kNamed);
  const std::string hosts =
      absl::StrCat(absl::StrJoin(awaited.begin(), awaited.begin() + named, ", "),
                   named < awaited.size() ? ", ..." : "");
  const std::string count = absl::StrCat(awaited.size());
  return MakeError(
      absl::StatusCode::kUnavailable,
      absl::StrCat(
          std::string(misfit.message()), "; ", count,
          " known hosts have not attached again since the server started, so ask again: ", hosts),
      {.reason = "HOSTS_AWAITED", .metadata = {{"count", count}, {"hosts", hosts}}});
}

absl::Status CheckCreate(const CreateState& request, const JournalQueue& journal,
                         const Membership& membership) {
  const v1::State& state = request.request.state();
  RETURN_IF_ERROR(ParseStateName("state.name", state.name()).status());
  RETURN_IF_ERROR(journal.CheckRoom());
  RETURN_IF_ERROR(CheckStep("state.", state.step()));
  RETURN_IF_ERROR(CheckLabels("state.", state.labels()));
  RETURN_IF_ERROR(CheckRequestId(request.request.request_id()));
  for (const auto& [host, part] : request.placed->hosts) {
    RETURN_IF_ERROR(CheckNotDrained(membership, host));
    RETURN_IF_ERROR(CheckHost(membership.workers(), host, part.devices));
    RETURN_IF_ERROR(CheckMemory(membership.workers(), host, state, part.bytes));
  }
  if (state.write_once()) {
    RETURN_IF_ERROR(CheckKnowWriteOnce(*request.placed, membership.workers()));
  }
  return absl::OkStatus();
}

StateEntry NewEntry(const CreateState& request, const std::string& digest, Moment now) {
  const v1::State& asked = request.request.state();
  StateEntry entry{.declared = {},
                   .placed = request.placed,
                   .request_id = request.request.request_id(),
                   .request_digest = digest};
  entry.declared.set_name(asked.name());
  entry.declared.set_generation(1);
  entry.declared.set_step(asked.step());
  entry.declared.set_write_once(asked.write_once());
  *entry.declared.mutable_labels() = asked.labels();
  *entry.declared.mutable_create_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(now.wall));
  return entry;
}

std::vector<Record> RecordsOfNew(const StateEntry& entry) {
  return {StateRecord(entry.declared, entry.placed->spec),
          CreateRequestRecord(entry.name(), entry.request_id, entry.request_digest)};
}

}  // namespace remesh::server
