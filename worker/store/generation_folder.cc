// SPDX-License-Identifier: Apache-2.0
#include "worker/store/generation_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/own_file.h"
#include "base/status_macros.h"
#include "worker/files/durable_file.h"
#include "worker/store/state_folder.h"
#include "worker/store/write_name.h"

namespace remesh::worker {
namespace fs = std::filesystem;
namespace {

absl::Status Unusable(const std::string& why) {
  return MakeError(absl::StatusCode::kDataLoss, why, {"CORRUPT_FILE", {{"why", why}}});
}

absl::Status FolderError(const std::string& folder, const std::error_code& error) {
  return MakeError(absl::StatusCode::kInternal, absl::StrCat(folder, ": ", error.message()),
                   {"IO_ERROR", {{"path", folder}, {"error", error.message()}}});
}

absl::Status CheckFiles(const std::string& folder, const Generation& generation) {
  const std::set<std::string> elsewhere = FilesElsewhere(generation.manifest);
  for (const ShardPlaces::File& file : generation.places.files) {
    if (elsewhere.contains(file.name)) continue;
    std::error_code error;
    const auto bytes = fs::file_size(absl::StrCat(folder, "/", file.name), error);
    if (error || static_cast<int64_t>(bytes) < file.bytes) {
      return Unusable(absl::StrCat("its file ", file.name, " is missing or cut short"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string GenerationFolder(const std::string& directory, const std::string& state,
                             int64_t generation) {
  return absl::StrCat(directory, "/", StateFolder(state), "/", generation);
}

std::string AsideFolder(const std::string& directory) { return directory + "/.aside"; }

absl::StatusOr<std::vector<std::string>> FoldersIn(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (fs::is_directory(it->symlink_status(ignored))) found.push_back(it->path().string());
  }
  if (error) return FolderError(folder, error);
  std::sort(found.begin(), found.end());
  return found;
}

std::set<std::string> FilesElsewhere(const worker::GenerationManifest& manifest) {
  std::set<std::string> files;
  for (const worker::SegmentRecord& record : manifest.segments()) files.insert(record.file());
  return files;
}

absl::Status TakeFolder(const std::string& folder) {
  const Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!fd || fstat(fd.get(), &info) != 0) return Unusable("its folder cannot be opened");
  if (info.st_uid != geteuid()) {
    return Unusable(absl::StrCat("its folder belongs to user ", info.st_uid));
  }
  // An earlier version left this to the umask.
  if (IsSharedFolder(info)) fchmod(fd.get(), info.st_mode & 07777 & ~(S_IWGRP | S_IWOTH));
  return absl::OkStatus();
}

absl::Status ReadGeneration(const std::string& directory, const std::string& folder, int devices,
                            Generation& generation) {
  worker::GenerationManifest& manifest = generation.manifest;
  RETURN_IF_ERROR(TakeFolder(folder));
  RETURN_IF_ERROR(ReadDurable(folder + kManifest, manifest));
  ASSIGN_OR_RETURN(generation.places, PlaceShards(manifest.assignment(), devices));
  generation.folder = GenerationFolder(directory, generation.state(), generation.number());
  if (generation.folder != folder) return Unusable("its manifest belongs elsewhere");
  if (manifest.sealed_size() != manifest.assignment().shards_size()) {
    return Unusable("its manifest has another number of seals than shards");
  }
  if (manifest.phase() < v1::SHARD_PHASE_BUILDING || manifest.phase() > v1::SHARD_PHASE_VERIFIED) {
    return Unusable("its phase is unknown");
  }
  RETURN_IF_ERROR(CheckWriteName(manifest.write()));
  return CheckFiles(folder, generation);
}

absl::Status MoveAside(const std::string& directory, const std::string& folder) {
  const fs::path aside = AsideFolder(directory);
  std::error_code error;
  MakeFolder(aside.string());
  const fs::path path(folder);
  constexpr size_t kNameBytes = 200;  // of the 255 that a file's name may have
  std::string stem =
      absl::StrCat(path.parent_path().filename().string(), ".", path.filename().string());
  stem.resize(std::min(stem.size(), kNameBytes));
  fs::path target;
  for (int i = 0; target.empty() || fs::exists(target, error); ++i)
    target = aside / absl::StrCat(stem, ".", i);
  fs::rename(path, target, error);
  return error ? FolderError(folder, error) : absl::OkStatus();
}

}  // namespace remesh::worker
