// SPDX-License-Identifier: Apache-2.0
#include "worker/store/begun_writes.h"

#include <utility>

#include "worker/files/durable_file.h"

namespace remesh::worker {

absl::Status BegunWrites::Open(std::string path) {
  path_ = std::move(path);
  const absl::Status status = ReadDurable(path_, list_);
  if (status.ok()) return status;
  list_.Clear();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

std::optional<std::string> BegunWrites::Find(const std::string& state,
                                             const std::string& state_uid) const {
  for (const worker::BegunWrite& begun : list_.writes()) {
    if (begun.state() == state && begun.state_uid() == state_uid) return begun.write();
  }
  return std::nullopt;
}

void BegunWrites::Add(const std::string& state, const std::string& state_uid,
                      const std::string& write) {
  worker::BegunWriteList next;
  for (const worker::BegunWrite& begun : list_.writes()) {
    if (begun.state() != state) *next.add_writes() = begun;
  }
  worker::BegunWrite& added = *next.add_writes();
  added.set_state(state);
  added.set_state_uid(state_uid);
  added.set_write(write);
  if (static_cast<size_t>(next.writes_size()) > kMax)
    next.mutable_writes()->DeleteSubrange(0, next.writes_size() - static_cast<int>(kMax));
  Replace(std::move(next));
}

void BegunWrites::Drop(const std::string& state, const std::string& state_uid) {
  if (!Find(state, state_uid)) return;
  worker::BegunWriteList next;
  for (const worker::BegunWrite& begun : list_.writes()) {
    if (begun.state() != state || begun.state_uid() != state_uid) *next.add_writes() = begun;
  }
  Replace(std::move(next));
}

void BegunWrites::Replace(worker::BegunWriteList next) {
  list_ = std::move(next);
  WriteDurably(path_, list_).IgnoreError();
}

}  // namespace remesh::worker
