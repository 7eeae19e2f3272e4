// SPDX-License-Identifier: Apache-2.0
#include "worker/store/adoption.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/files/durable_file.h"
#include "worker/store/generation_folder.h"
#include "worker/store/generation_segments.h"

namespace remesh::worker {
namespace fs = std::filesystem;
namespace {

bool IsHidden(const std::string& folder) {
  return absl::StartsWith(fs::path(folder).filename().string(), ".");
}

bool IsNumber(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What an earlier life left in a folder. NOT_FOUND, DATA_LOSS or INVALID_ARGUMENT: no generation.
struct Left {
  std::string folder;
  absl::Status status;
  Generation generation;
};

class Adoption {
 public:
  Adoption(const AdoptFrom& from, Trash& trash) : from_(from), trash_(trash) {}

  absl::StatusOr<Adopted> Run();

 private:
  // Reads all before any is changed. UNAVAILABLE if the keeper cannot be asked now.
  absl::StatusOr<std::vector<Left>> ReadAll(const std::vector<std::string>& states);
  // False: the generation is of another boot, or PREPARED.
  bool IsOfUse(const Generation& generation) const;
  void AdoptOne(Left left);
  // The folders in a folder. If they cannot be listed, notes that and returns none.
  std::vector<std::string> Folders(const std::string& folder);
  // Frees the keeper's segments of generations that no longer exist or were never completed.
  void DropUnknownSegments();
  void SetAside(const std::string& folder, const std::string& why);

  const AdoptFrom& from_;
  Trash& trash_;
  Adopted adopted_;
  bool all_known_ = true;  // nothing that is in the directory has been left out
};

absl::StatusOr<Adopted> Adoption::Run() {
  const std::vector<std::string> folders = Folders(from_.directory);
  ASSIGN_OR_RETURN(std::vector<Left> left, ReadAll(folders));
  // First, because setting aside makes folders, for which a full file system has no room.
  for (const std::string& folder : folders) {
    if (Trash::Has(folder)) trash_.Remove(folder);
  }
  for (Left& one : left) AdoptOne(std::move(one));
  for (const std::string& folder : folders) {
    std::error_code not_empty;
    if (!IsHidden(folder)) fs::remove(folder, not_empty);
  }
  DropUnknownSegments();
  return std::move(adopted_);
}

std::vector<std::string> Adoption::Folders(const std::string& folder) {
  absl::StatusOr<std::vector<std::string>> found = FoldersIn(folder);
  if (found.ok()) return *std::move(found);
  all_known_ = false;
  adopted_.notes.push_back(absl::StrCat("left out: ", std::string(found.status().message())));
  return {};
}

absl::StatusOr<std::vector<Left>> Adoption::ReadAll(const std::vector<std::string>& states) {
  std::vector<Left> all;
  for (const std::string& state : states) {
    if (IsHidden(state)) continue;
    if (const absl::Status own = TakeFolder(state); !own.ok()) {
      all_known_ = false;
      adopted_.notes.push_back(absl::StrCat("left out: ", state, ": ", std::string(own.message())));
      continue;
    }
    for (const std::string& folder : Folders(state)) {
      Left& left = all.emplace_back(Left{.folder = folder, .status = {}, .generation = {}});
      left.status = ReadGeneration(from_.directory, folder, from_.devices, left.generation);
      if (!left.status.ok() || !IsOfUse(left.generation)) continue;
      left.status = FindSegments(from_.segments, left.generation);
      if (absl::IsUnavailable(left.status)) return left.status;
    }
  }
  return all;
}

bool Adoption::IsOfUse(const Generation& generation) const {
  return generation.manifest.boot_id() == from_.boot_id &&
         generation.phase() != v1::SHARD_PHASE_PREPARED;
}

void Adoption::DropUnknownSegments() {
  // The segments may belong to folders that could not be read or set aside.
  if (from_.segments == nullptr || !all_known_) return;
  const auto names = from_.segments->Names();
  if (!names.ok()) return;  // the next life drops them
  std::set<std::string> known;
  const auto add = [&known](const worker::GenerationManifest& manifest) {
    for (const worker::SegmentRecord& record : manifest.segments()) known.insert(record.name());
  };
  for (const Generation& generation : adopted_.generations) add(generation.manifest);
  const std::vector<std::string> aside = Folders(AsideFolder(from_.directory));
  if (!all_known_) return;
  for (const std::string& folder : aside) {
    worker::GenerationManifest manifest;
    // Any of the segments may belong to this folder.
    if (!ReadDurable(folder + kManifest, manifest).ok()) return;
    add(manifest);
  }
  for (const std::string& name : *names) {
    if (!known.contains(name)) from_.segments->Drop(name);
  }
}

void Adoption::AdoptOne(Left left) {
  Generation& generation = left.generation;
  // The manifest is written last, so without it the generation was not completed.
  if (absl::IsNotFound(left.status) && IsNumber(fs::path(left.folder).filename().string())) {
    adopted_.notes.push_back(absl::StrCat("removed ", left.folder, ": it was not made to its end"));
    return trash_.Remove(left.folder);
  }
  if (!left.status.ok()) return SetAside(left.folder, std::string(left.status.message()));
  if (!IsOfUse(generation)) {
    const bool stale = generation.manifest.boot_id() != from_.boot_id;
    adopted_.notes.push_back(
        absl::StrCat("removed ", left.folder, ": ",
                     stale ? "of another boot" : "its execution had not verified it"));
    return trash_.Remove(left.folder);
  }
  adopted_.generations.push_back(std::move(generation));
}

void Adoption::SetAside(const std::string& folder, const std::string& why) {
  const absl::Status done = MoveAside(from_.directory, folder);
  if (!done.ok()) all_known_ = false;
  adopted_.notes.push_back(done.ok() ? absl::StrCat("set ", folder, " aside: ", why)
                                     : absl::StrCat("cannot set ", folder, " aside (",
                                                    std::string(done.message()), "): ", why));
}

}  // namespace

absl::StatusOr<Adopted> AdoptGenerations(const AdoptFrom& from, Trash& trash) {
  return Adoption(from, trash).Run();
}

}  // namespace remesh::worker
