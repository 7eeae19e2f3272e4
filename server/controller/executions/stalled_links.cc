// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/stalled_links.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text/resource_names.h"

namespace remesh::server {
namespace {

constexpr size_t kReportedMax = 16;  // hosts, as in Quiesced

std::set<std::string> NamesIn(const ErrorInfo& info, const std::string& key) {
  std::set<std::string> names;
  const auto found = info.metadata.find(key);
  if (info.reason != "LINK_STALLED" || found == info.metadata.end()) return names;
  for (const absl::string_view name : absl::StrSplit(found->second, ',', absl::SkipEmpty())) {
    if (names.size() < kReportedMax && name.size() <= kHostNameMax) names.emplace(name);
  }
  return names;
}

}  // namespace

void StalledLinks::Report(const std::string& host, const ErrorInfo& info) {
  hosts_[host] = {NamesIn(info, "receives_from"), NamesIn(info, "sends_to")};
}

std::set<std::string> StalledLinks::Named() const {
  std::set<std::string> links;
  const auto add = [&links](const std::string& from, const std::string& to) {
    if (links.size() < kNamedMax) links.insert(absl::StrCat(from, "->", to));
  };
  for (const auto& [host, waits] : hosts_) {
    for (const std::string& from : waits.receives_from) {
      const auto sender = hosts_.find(from);
      if (sender == hosts_.end()) continue;
      if (sender->second.sends_to.contains(host) || sender->second.receives_from.empty())
        add(from, host);
    }
    for (const std::string& to : waits.sends_to) {
      const auto receiver = hosts_.find(to);
      if (receiver != hosts_.end() && receiver->second.receives_from.empty()) add(host, to);
    }
  }
  return links;
}

}  // namespace remesh::server
