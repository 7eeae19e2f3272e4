// SPDX-License-Identifier: Apache-2.0
#include "server/controller/stalled_links.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace remesh::server {
namespace {

std::set<std::string> NamesIn(const ErrorInfo& info, const std::string& key,
                              const std::vector<std::string>& hosts) {
  std::set<std::string> names;
  const auto found = info.metadata.find(key);
  if (info.reason != "LINK_STALLED" || found == info.metadata.end()) return names;
  for (const absl::string_view name : absl::StrSplit(found->second, ',')) {
    if (std::binary_search(hosts.begin(), hosts.end(), name)) names.emplace(name);
  }
  return names;
}

}  // namespace

void StalledLinks::Said(const std::string& host, const ErrorInfo& info,
                        const std::vector<std::string>& hosts) {
  hosts_[host] = {NamesIn(info, "receives_from", hosts), NamesIn(info, "sends_to", hosts)};
}

std::vector<std::string> StalledLinks::Named() const {
  std::set<std::string> links;
  for (const auto& [host, waits] : hosts_) {
    for (const std::string& from : waits.receives_from) {
      const auto sender = hosts_.find(from);
      if (sender == hosts_.end()) continue;
      if (sender->second.sends_to.contains(host) || sender->second.receives_from.empty())
        links.insert(absl::StrCat(from, "->", host));
    }
    for (const std::string& to : waits.sends_to) {
      const auto receiver = hosts_.find(to);
      if (receiver != hosts_.end() && receiver->second.receives_from.empty())
        links.insert(absl::StrCat(host, "->", to));
    }
  }
  std::vector<std::string> named(links.begin(), links.end());
  if (std::ssize(named) > kNamedMax) named.resize(kNamedMax);
  return named;
}

}  // namespace remesh::server
