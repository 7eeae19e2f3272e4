// SPDX-License-Identifier: Apache-2.0
#include "server/controller/host_writes.h"

#include <algorithm>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace remesh::server {
namespace {

constexpr size_t kNamedMax = 16;

// As in "7 on host-0". A write is whatever the job says, so it is escaped.
std::string Named(const v1::HostWrite& one) {
  const std::string write = one.write().empty() ? "no write" : absl::CHexEscape(one.write());
  return absl::StrCat(write, " on ", one.host());
}

}  // namespace

bool Agree(const HostWrites& writes) {
  return std::all_of(writes.begin(), writes.end(),
                     [&](const auto& host) { return host.second == writes.begin()->second; });
}

std::vector<v1::HostWrite> SomeOf(const HostWrites& writes) {
  std::set<std::string> seen, hosts;
  for (const auto& [host, write] : writes) {
    if (hosts.size() < kNamedMax && seen.insert(write).second) hosts.insert(host);
  }
  for (const auto& [host, write] : writes) {
    if (hosts.size() < kNamedMax) hosts.insert(host);
  }
  std::vector<v1::HostWrite> some;
  for (const std::string& host : hosts) {
    v1::HostWrite& one = some.emplace_back();
    one.set_host(host);
    one.set_write(writes.at(host));
  }
  return some;
}

std::string Describe(const HostWrites& writes) {
  if (writes.empty()) return "";
  const std::vector<v1::HostWrite> some = SomeOf(writes);
  const std::string named = absl::StrJoin(
      some, ", ",
      [](std::string* out, const v1::HostWrite& one) { absl::StrAppend(out, Named(one)); });
  const bool has_write = !some.front().write().empty();
  return absl::StrCat(has_write ? "write " : "", named, some.size() < writes.size() ? ", ..." : "");
}

}  // namespace remesh::server
