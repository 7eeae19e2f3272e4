// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/agent_memory.h"

#include "base/check.h"
#include "base/random_bytes.h"
#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "service/log/log.h"
#include "worker/files/durable_file.h"

namespace remesh::worker {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr int64_t kRecordBytesMax = 1024;  // a secret, two ids and a few numbers

}  // namespace

absl::StatusOr<AgentMemory> AgentMemory::Open(std::string path) {
  worker::AgentRecord record;
  const absl::Status status = ReadDurable(path, record);
  // What cannot be opened is not lost, and must not be written over.
  if (!status.ok() && !absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
  if (absl::IsDataLoss(status)) {
    service::LogWarning("the agent's record is lost", {{"error", status}});
    record.Clear();
  }
  if (record.host_secret().empty()) record.set_host_secret(RandomBytes(kSecretBytes));
  // The agent must be able to follow a restarted planner on a full file system, too.
  RETURN_IF_ERROR(ReserveWrites(path, kRecordBytesMax));
  RETURN_IF_ERROR(WriteDurably(path, record));
  return AgentMemory(std::move(path), std::move(record));
}

absl::Status AgentMemory::Update(const worker::AgentRecord& next) {
  if (google::protobuf::util::MessageDifferencer::Equals(next, record_)) return absl::OkStatus();
  RETURN_IF_ERROR(WriteDurably(path_, next));
  record_ = next;
  return absl::OkStatus();
}

bool IsFurther(const v1::JournalPosition& told, const v1::JournalPosition& known) {
  if (told.leadership().empty()) return false;
  return told.leadership() != known.leadership() || told.sequence() > known.sequence();
}

}  // namespace remesh::worker
