// SPDX-License-Identifier: Apache-2.0
#include "worker/store/buffer_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/own_file.h"
#include "base/status_macros.h"
#include "worker/files/durable_file.h"
#include "worker/store/adoption.h"
#include "worker/store/generation_folder.h"
#include "worker/store/generation_mapping.h"
#include "worker/store/generation_segments.h"
#include "worker/store/shard_places.h"
#include "worker/store/write_name.h"

namespace remesh::worker {
namespace fs = std::filesystem;
namespace {

constexpr char kBegunWrites[] = "/writes";

bool AllSealed(const worker::GenerationManifest& manifest) {
  return std::all_of(manifest.sealed().begin(), manifest.sealed().end(), [](bool s) { return s; });
}

}  // namespace

BufferStore::BufferStore(Options options)
    : options_(std::move(options)),
      trash_(options_.directory),
      space_(std::make_shared<MemorySpace>(options_.directory, options_.memory_limit_bytes,
                                           options_.cgroup_root)),
      pool_(options_.directory, space_),
      scratch_(std::make_shared<ScratchPool>(space_, options_.now)) {}

absl::StatusOr<std::unique_ptr<BufferStore>> BufferStore::Open(Options options) {
  std::error_code error;
  if (!MakeFolder(options.directory)) error = {errno, std::generic_category()};
  if (error || !fs::is_directory(options.directory, error)) {
    return InvalidField("buffer_directory", options.directory,
                        absl::StrCat("must be a directory that can be made: ", error.message()));
  }
  auto store = std::unique_ptr<BufferStore>(new BufferStore(std::move(options)));
  RETURN_IF_ERROR(store->Adopt());
  return store;
}

absl::Status BufferStore::Adopt() {
  const AdoptFrom from = {.directory = options_.directory,
                          .boot_id = options_.boot_id,
                          .devices = options_.devices,
                          .segments = options_.segments};
  ASSIGN_OR_RETURN(Adopted adopted, AdoptGenerations(from, trash_));
  for (Generation& generation : adopted.generations) {
    space_->Adopt(generation.host_bytes());
    Key key(generation.state(), generation.number());
    generations_.emplace(std::move(key), std::move(generation));
  }
  notes_ = std::move(adopted.notes);
  const absl::Status begun = begun_writes_.Open(options_.directory + kBegunWrites);
  if (!begun.ok()) notes_.push_back(absl::StrCat("left out: ", std::string(begun.message())));
  return absl::OkStatus();
}

const Generation* BufferStore::Find(const std::string& state, int64_t generation) const {
  const auto it = generations_.find({state, generation});
  return it == generations_.end() ? nullptr : &it->second;
}

std::vector<const Generation*> BufferStore::List() const {
  std::vector<const Generation*> all;
  for (const auto& [key, generation] : generations_) all.push_back(&generation);
  return all;
}

std::vector<const Generation*> BufferStore::ListOf(const std::string& state) const {
  std::vector<const Generation*> of_state;
  for (auto it = generations_.lower_bound({state, 0});
       it != generations_.end() && it->first.first == state; ++it) {
    of_state.push_back(&it->second);
  }
  return of_state;
}

absl::Status BufferStore::Create(const v1::Assignment& assignment, v1::ShardPhase phase,
                                 const v1::AttemptId& attempt) {
  ASSIGN_OR_RETURN(Generation generation, Begin(assignment, phase, attempt));
  const absl::Status filled = Fill(generation, nullptr);
  return Finish(std::move(generation), filled);
}

absl::StatusOr<Generation> BufferStore::Begin(const v1::Assignment& assignment,
                                              v1::ShardPhase phase, const v1::AttemptId& attempt) {
  Generation generation;
  ASSIGN_OR_RETURN(generation.places, PlaceShards(assignment, options_.devices));
  *generation.manifest.mutable_assignment() = assignment;
  generation.manifest.set_phase(phase);
  *generation.manifest.mutable_attempt() = attempt;
  generation.manifest.set_boot_id(options_.boot_id);
  generation.manifest.set_cluster_uid(cluster_uid_);
  generation.manifest.mutable_sealed()->Resize(assignment.shards_size(), false);
  NameSegments(options_.segments, generation);
  generation.folder =
      GenerationFolder(options_.directory, assignment.state(), assignment.generation());
  RETURN_IF_ERROR(CheckAbsent(generation));
  const Key key(generation.state(), generation.number());
  int64_t taken_over = 0;
  if (phase == v1::SHARD_PHASE_PREPARED) {
    if (auto kept = pool_.Take(generation.state_uid()); kept != nullptr) {
      taken_over = kept->bytes();
      generation.taken_over = std::make_shared<TakenOver>(TakenOver{std::move(kept), {}});
    }
  }
  RETURN_IF_ERROR(TakeSpace(generation.host_bytes(), taken_over));
  begun_.insert(key);
  return generation;
}

absl::Status BufferStore::CheckAbsent(const Generation& generation) const {
  const Key key(generation.state(), generation.number());
  if (!generations_.contains(key) && !begun_.contains(key)) return absl::OkStatus();
  const std::string number = absl::StrCat(generation.number());
  return MakeError(
      absl::StatusCode::kAlreadyExists,
      absl::StrCat("generation ", number, " of ", generation.state(), " is here already"),
      {"GENERATION_EXISTS", {{"state", generation.state()}, {"generation", number}}});
}

absl::Status BufferStore::Lend(const v1::Assignment& assignment, LentShards lent) {
  MappedShards& mapped = *lent.mapped;
  Generation generation;
  ASSIGN_OR_RETURN(generation.places, PlaceShards(assignment, options_.devices));
  *generation.manifest.mutable_assignment() = assignment;
  generation.manifest.set_phase(v1::SHARD_PHASE_READY);
  generation.manifest.set_cluster_uid(cluster_uid_);
  generation.manifest.mutable_sealed()->Resize(assignment.shards_size(), true);
  generation.manifest.set_write(std::move(lent.write));
  generation.lent = true;
  generation.lease = mapped.lease;
  RETURN_IF_ERROR(CheckAbsent(generation));
  RETURN_IF_ERROR(CheckLent(lent.missing_bytes));
  generation.missing_bytes = lent.missing_bytes;
  space_->Expect(lent.missing_bytes);
  mapped.assignment = assignment;
  PlaceLent(generation.places, lent);
  Key key(generation.state(), generation.number());
  mapped_[key] = std::move(lent.mapped);
  generations_.emplace(std::move(key), std::move(generation));
  return absl::OkStatus();
}

// What the pools keep is free memory.
absl::Status BufferStore::TakeSpace(int64_t bytes, int64_t taken_over) const {
  const absl::Status status = space_->Take(bytes, taken_over);
  if (status.ok() || FreeKept() == 0) return status;
  return space_->Take(bytes, taken_over);
}

int64_t BufferStore::FreeKept() const { return pool_.Trim() + scratch_->Trim(); }

// Lent files are memory wherever the store's own are. The first process to access a page is charged
// for it.
absl::Status BufferStore::CheckLent(int64_t missing_bytes) const {
  if (missing_bytes == 0) return absl::OkStatus();
  const absl::Status status = space_->CheckMemory(missing_bytes);
  if (status.ok() || FreeKept() == 0) return status;
  return space_->CheckMemory(missing_bytes);
}

absl::Status BufferStore::CheckCgroup(int64_t bytes) const {
  const absl::Status status = space_->CheckCgroup(bytes);
  if (status.ok() || FreeKept() == 0) return status;
  return space_->CheckCgroup(bytes);
}

absl::Status BufferStore::Finish(Generation generation, const absl::Status& filled) {
  Key key(generation.state(), generation.number());
  REMESH_CHECK(begun_.erase(key) == 1);
  if (!filled.ok()) {
    generation.taken_over = nullptr;
    space_->Give(generation.host_bytes());
    DropSegments(options_.segments, generation);
    trash_.Remove(generation.folder);
    return filled;
  }
  generations_.emplace(std::move(key), std::move(generation));
  return absl::OkStatus();
}

absl::Status BufferStore::Fill(const Generation& generation,
                               const std::atomic<bool>* cancelled) const {
  std::error_code error;
  fs::remove_all(generation.folder, error);
  if (!error && !MakeFolder(generation.folder)) error = {errno, std::generic_category()};
  if (error) {
    return MakeError(absl::StatusCode::kInternal,
                     absl::StrCat("cannot make ", generation.folder, ": ", error.message()),
                     {"IO_ERROR", {{"path", generation.folder}, {"error", error.message()}}});
  }
  RETURN_IF_ERROR(MakeFiles(generation, cancelled));
  RETURN_IF_ERROR(MakeSegments(options_.segments, generation));
  // Later manifests have the same size, except for the phase, the flags and the writes.
  constexpr int64_t kLaterBytes = 64 + (1 + kReplacedMax) * (2 + kWriteBytesMax);
  const int64_t manifest_bytes =
      static_cast<int64_t>(generation.manifest.ByteSizeLong()) + kLaterBytes;
  RETURN_IF_ERROR(ReserveWrites(generation.folder + kManifest, manifest_bytes));
  return WriteDurably(generation.folder + kManifest, generation.manifest);
}

absl::Status BufferStore::MakeFiles(const Generation& generation,
                                    const std::atomic<bool>* cancelled) const {
  const std::vector<ShardPlaces::File>& files = generation.places.files;
  const auto path = [&](size_t i) { return absl::StrCat(generation.folder, "/", files[i].name); };
  const std::set<std::string> elsewhere = FilesElsewhere(generation.manifest);
  TakenOver none;
  TakenOver& old = generation.taken_over != nullptr ? *generation.taken_over : none;
  int64_t fresh_bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (elsewhere.contains(files[i].name)) continue;
    auto file = old.from ? old.from->Take(files[i].name, files[i].bytes, path(i)) : std::nullopt;
    if (!file) fresh_bytes += files[i].bytes;
    if (!file) continue;
    ZeroGaps(generation.places, static_cast<int>(i), file->bytes());
    old.files[static_cast<int>(i)] = *std::move(file);
  }
  old.from = nullptr;  // frees the files that were not taken
  RETURN_IF_ERROR(CheckCgroup(fresh_bytes));
  for (size_t i = 0; i < files.size(); ++i) {
    if (old.files.contains(static_cast<int>(i)) || elsewhere.contains(files[i].name)) continue;
    RETURN_IF_ERROR(CreateReservedFile(path(i), files[i].bytes, cancelled));
  }
  return absl::OkStatus();
}

absl::Status BufferStore::SetPhase(const std::string& state, int64_t generation,
                                   v1::ShardPhase phase) {
  const auto it = generations_.find({state, generation});
  REMESH_CHECK(it != generations_.end() && it->second.pending());
  Generation next = it->second;
  next.manifest.set_phase(phase);
  if (phase == v1::SHARD_PHASE_READY) {
    next.manifest.mutable_assignment()->set_committed(true);
    next.manifest.clear_write();
    std::fill(next.manifest.mutable_sealed()->begin(), next.manifest.mutable_sealed()->end(), true);
  }
  RETURN_IF_ERROR(Write(next));
  it->second = std::move(next);
  return absl::OkStatus();
}

absl::Status BufferStore::SetSealed(const std::string& state, int64_t generation,
                                    absl::Span<const int> shards, bool sealed,
                                    const std::optional<std::string>& write) {
  const auto it = generations_.find({state, generation});
  REMESH_CHECK(it != generations_.end() && !it->second.pending() && !it->second.lent);
  Generation next = it->second;
  for (const int shard : shards) next.manifest.set_sealed(shard, sealed);
  next.manifest.set_phase(AllSealed(next.manifest) ? v1::SHARD_PHASE_READY
                                                   : v1::SHARD_PHASE_BUILDING);
  if (next.sealed_shards() == 0) next.manifest.clear_modified();
  if (write) RenameWrite(next.manifest, *write);
  RETURN_IF_ERROR(Write(next));
  it->second = std::move(next);
  return absl::OkStatus();
}

absl::Status BufferStore::NoteCommitted(const std::string& state, int64_t generation) {
  const auto it = generations_.find({state, generation});
  REMESH_CHECK(it != generations_.end() && it->second.all_sealed());
  Generation& held = it->second;
  if (held.manifest.assignment().committed()) return absl::OkStatus();
  held.manifest.mutable_assignment()->set_committed(true);
  return held.lent ? absl::OkStatus() : Write(held);
}

absl::Status BufferStore::NoteModified(const std::string& state, int64_t generation) {
  const auto it = generations_.find({state, generation});
  if (it == generations_.end() || it->second.modified()) return absl::OkStatus();
  Generation& held = it->second;
  held.manifest.set_modified(true);
  return held.lent ? absl::OkStatus() : Write(held);
}

void BufferStore::SetLentWrite(const std::string& state, int64_t generation,
                               const std::string& write) {
  const auto it = generations_.find({state, generation});
  REMESH_CHECK(it != generations_.end() && it->second.lent);
  RenameWrite(it->second.manifest, write);
}

absl::Status BufferStore::Write(const Generation& generation) const {
  return WriteDurably(generation.folder + kManifest, generation.manifest);
}

void BufferStore::Drop(const std::string& state, int64_t generation) {
  const auto it = generations_.find({state, generation});
  if (it == generations_.end()) return;
  if (!it->second.lent) trash_.Remove(it->second.folder);
  mapped_.erase(it->first);
  space_->Give(it->second.host_bytes());
  DropSegments(options_.segments, it->second);
  space_->Expect(-it->second.missing_bytes);
  generations_.erase(it);
}

void BufferStore::Recycle(const std::string& state, int64_t generation) {
  const auto it = generations_.find({state, generation});
  if (it == generations_.end()) return;
  auto mapped = mapped_.extract(it->first);
  const bool known = !mapped.empty() && mapped.mapped() != nullptr;
  const Generation& old = it->second;
  // Memory of devices goes back at once: there is none to spare.
  if (!known || old.lent || !old.segments->empty() ||
      options_.recycle_idle <= absl::ZeroDuration() ||
      !pool_.Keep(old.state_uid(), old.folder, old.places, std::move(mapped.mapped()),
                  options_.now())) {
    return Drop(state, generation);
  }
  std::error_code not_empty;
  fs::remove(fs::path(old.folder).parent_path(), not_empty);
  space_->Expect(-it->second.missing_bytes);
  generations_.erase(it);
}

absl::StatusOr<std::shared_ptr<const MappedShards>> BufferStore::Map(const std::string& state,
                                                                     int64_t generation) {
  const auto it = generations_.find({state, generation});
  REMESH_CHECK(it != generations_.end());
  Generation& held = it->second;
  std::shared_ptr<MappedShards>& kept = mapped_[it->first];
  if (held.lent) {
    RETURN_IF_ERROR(kept->CheckWhole());
    return kept;
  }
  if (kept != nullptr && StillMaps(*kept, held)) return kept;
  kept = nullptr;
  ASSIGN_OR_RETURN(kept, MapGeneration(held));
  return kept;
}

absl::StatusOr<std::shared_ptr<Scratch>> BufferStore::ReserveScratch(
    int64_t bytes, const std::atomic<bool>* cancelled) const {
  if (auto kept = scratch_->Take(bytes))
    return std::make_shared<Scratch>(*std::move(kept), scratch_);
  RETURN_IF_ERROR(CheckCgroup(bytes));
  RETURN_IF_ERROR(TakeSpace(bytes, 0));
  auto file = MappedFile::CreateScratch(options_.directory, bytes, cancelled);
  if (file.ok()) return std::make_shared<Scratch>(*std::move(file), scratch_);
  space_->Give(bytes);
  return file.status();
}

}  // namespace remesh::worker
