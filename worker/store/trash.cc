// SPDX-License-Identifier: Apache-2.0
#include "worker/store/trash.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace remesh::worker {
namespace fs = std::filesystem;
namespace {

constexpr char kTrash[] = ".trash";

}  // namespace

void Trash::Remove(const std::string& folder) {
  std::string trash;
  std::error_code error;
  do {
    trash = absl::StrCat(directory_, "/", kTrash, ++removed_);
  } while (fs::exists(trash, error));
  fs::rename(folder, trash, error);
  fs::remove_all(error ? folder : trash, error);
  fs::remove(fs::path(folder).parent_path(), error);  // if this was the last
}

bool Trash::Has(const std::string& folder) {
  return absl::StartsWith(fs::path(folder).filename().string(), kTrash);
}

}  // namespace remesh::worker
