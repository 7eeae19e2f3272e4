// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/manifest.pb.h"

namespace remesh::worker {

// What the agent must remember between its lives, in a file beside its buffers. Not thread-safe.
class AgentMemory {
 public:
  // Reads the file, or makes one with a new host secret. Replaces a corrupt file, with a warning in
  // the log. Reserves the space of every later write.
  static absl::StatusOr<AgentMemory> Open(std::string path);

  const worker::AgentRecord& record() const { return record_; }
  // OK once the record is on file; on error nothing has changed. Costs nothing if nothing differs.
  absl::Status Update(const worker::AgentRecord& next);

 private:
  AgentMemory(std::string path, worker::AgentRecord record)
      : path_(std::move(path)), record_(std::move(record)) {}

  std::string path_;
  worker::AgentRecord record_;
};

// Whether `told` must replace `known`: it is of another leadership, or later.
bool IsFurther(const v1::JournalPosition& told, const v1::JournalPosition& known);

}  // namespace remesh::worker
