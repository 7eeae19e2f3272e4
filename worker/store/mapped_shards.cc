// SPDX-License-Identifier: Apache-2.0
#include "worker/store/mapped_shards.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

absl::Status SourceLost(const v1::Assignment& assignment) {
  const std::string generation = absl::StrCat(assignment.generation());
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("the trainer that lent generation ", generation, " of ",
                                assignment.state(), " is gone, and its memory with it"),
                   {"SOURCE_LOST", {{"state", assignment.state()}, {"generation", generation}}});
}

}  // namespace

bool MappedShards::spoiled() const {
  if (mapped != nullptr) return mapped->spoiled();
  if (lease != nullptr && lease->ended()) return true;
  return std::any_of(files.begin(), files.end(),
                     [](const MappedFile& file) { return file.truncated(); });
}

absl::Status MappedShards::CheckWhole() const {
  if (mapped != nullptr) return mapped->CheckWhole();
  if (lease != nullptr && lease->ended()) return SourceLost(assignment);
  for (const MappedFile& file : files) RETURN_IF_ERROR(file.CheckWhole());
  return absl::OkStatus();
}

std::vector<std::vector<const MappedFile*>> FilesByDevice(const MappedShards& shards) {
  if (shards.mapped != nullptr) return FilesByDevice(*shards.mapped);
  std::vector<std::vector<const MappedFile*>> files;
  if (shards.files.empty()) return files;
  for (size_t i = 0; i < shards.file_of.size(); ++i) {
    const int local = shards.assignment.shards(static_cast<int>(i)).local_device();
    if (std::ssize(files) <= local) files.resize(local + 1);
    const MappedFile* const file = &shards.files[shards.file_of[i]];
    if (file->path().empty()) continue;
    if (std::ranges::find(files[local], file) == files[local].end()) files[local].push_back(file);
  }
  return files;
}

bool EndSome(MappedShards& mapped) {
  for (int i = 0; i < kMemoriesAtATime && !mapped.files.empty(); ++i) mapped.files.pop_back();
  for (int i = 0; i < kMemoriesAtATime && !mapped.on_device.empty(); ++i)
    mapped.on_device.pop_back();
  return mapped.files.empty() && mapped.on_device.empty();
}

absl::StatusOr<std::shared_ptr<const MappedShards>> ReachedBy(
    const LocalDevices& devices, std::shared_ptr<const MappedShards> mapped) {
  if (mapped == nullptr || devices.in_host_memory()) return mapped;
  auto reached = std::make_shared<MappedShards>();
  reached->assignment = mapped->assignment;
  reached->registered.resize(mapped->files.size());
  for (size_t i = 0; i < mapped->shards.size(); ++i) {
    ShardView shard = mapped->shards[i];
    const int index = mapped->file_of[i];
    if (mapped->on_device[index] == nullptr) {
      const std::span<std::byte> file = mapped->files[index].bytes();
      std::shared_ptr<std::byte>& address = reached->registered[index];
      if (address == nullptr) {
        // Each file is of one device.
        Device* const device =
            devices.Of(mapped->assignment.shards(static_cast<int>(i)).local_device());
        ASSIGN_OR_RETURN(address, mapped->files[index].ReachedBy(*device));
      }
      shard.data = address.get() + (shard.data - file.data());
    }
    reached->shards.push_back(std::move(shard));
  }
  reached->mapped = std::move(mapped);
  return reached;
}

}  // namespace remesh::worker
