// SPDX-License-Identifier: Apache-2.0
#include "worker/files/cgroup_memory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace remesh::worker {
namespace {

// The names of one version of the kernel's interface.
struct Names {
  const char* limit;
  const char* used;
  const char* cache[2];  // rows of memory.stat
};
constexpr Names kVersion1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr Names kVersion2{"memory.max", "memory.current", {"inactive_file", "active_file"}};
// Version 1 says "no limit" by a number near 2^63.
constexpr int64_t kNoLimit = int64_t{1} << 62;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<int64_t> ReadNumber(const std::string& path) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(ReadText(path), &number)) return std::nullopt;  // "max", or no file
  return number;
}

int64_t CacheBytes(const std::string& folder, const Names& names) {
  int64_t bytes = 0;
  const std::string stat = ReadText(folder + "/memory.stat");
  for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
    const std::pair<absl::string_view, absl::string_view> row =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t value = 0;
    if ((row.first == names.cache[0] || row.first == names.cache[1]) &&
        absl::SimpleAtoi(row.second, &value)) {
      bytes += value;
    }
  }
  return bytes;
}

std::optional<CgroupMemory> Read(const std::string& folder, const Names& names) {
  const auto limit = ReadNumber(absl::StrCat(folder, "/", names.limit));
  const auto used = ReadNumber(absl::StrCat(folder, "/", names.used));
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  return CgroupMemory{folder, *limit, std::max<int64_t>(*used - CacheBytes(folder, names), 0)};
}

// "/a/b" -> "/a/b", "/a", "". Inside a container the path may be the host's, of which only the root
// is mounted.
std::vector<std::string> WithAllAbove(absl::string_view path) {
  std::vector<std::string> paths;
  while (path.size() > 1) {
    if (!absl::StrContains(path, "..")) paths.emplace_back(path);
    path = path.substr(0, path.rfind('/'));
  }
  paths.emplace_back("");
  return paths;
}

}  // namespace

std::optional<CgroupMemory> FindCgroupMemory(const std::string& membership,
                                             const std::string& root) {
  std::optional<CgroupMemory> tightest;
  for (const absl::string_view line : absl::StrSplit(membership, '\n')) {
    // HIERARCHY:CONTROLLERS:PATH
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) continue;
    const bool version2 = parts[0] == "0" && parts[1].empty();
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const bool version1 =
        std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
    if (!version1 && !version2) continue;
    for (const std::string& path : WithAllAbove(parts[2])) {
      const auto found = Read(absl::StrCat(root, version1 ? "/memory" : "", path),
                              version1 ? kVersion1 : kVersion2);
      if (found && (!tightest || found->free_bytes() < tightest->free_bytes())) tightest = found;
    }
  }
  return tightest;
}

std::optional<CgroupMemory> OwnCgroupMemory(const std::string& root) {
  return FindCgroupMemory(ReadText("/proc/self/cgroup"), root);
}

}  // namespace remesh::worker
