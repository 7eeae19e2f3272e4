// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/host_writes.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace remesh::server {
namespace {

constexpr size_t kHostsNamedMax = 16;

}  // namespace

bool Agree(const HostWrites& writes) {
  return std::all_of(writes.begin(), writes.end(),
                     [&](const auto& host) { return host.second == writes.begin()->second; });
}

std::vector<v1::HostWrite> SomeOf(const HostWrites& writes) {
  std::set<std::string> seen, hosts;
  for (const auto& [host, write] : writes) {
    if (hosts.size() < kHostsNamedMax && seen.insert(write).second) hosts.insert(host);
  }
  for (const auto& [host, write] : writes) {
    if (hosts.size() < kHostsNamedMax) hosts.insert(host);
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
  std::vector<std::string> named;
  std::string_view before = "write ";  // before the first that has a name
  for (const v1::HostWrite& one : SomeOf(writes)) {
    if (one.write().empty()) {
      named.push_back(absl::StrCat("no write on ", one.host()));
      continue;
    }
    // A write is whatever the job says.
    named.push_back(absl::StrCat(std::string(std::exchange(before, "")),
                                 absl::CHexEscape(one.write()), " on ", one.host()));
  }
  const bool all = named.size() == writes.size();
  return absl::StrCat(absl::StrJoin(named, ", "), all ? "" : ", ...");
}

}  // namespace remesh::server
