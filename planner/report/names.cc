// SPDX-License-Identifier: Apache-2.0
#include "planner/report/names.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "planner/report/units.h"

namespace remesh::planner {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The digits of `text` from `at` on, without leading zeros.
std::string_view Number(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  while (at + 1 < end && text[at] == '0') ++at;
  return text.substr(at, end - at);
}

// "a, b, c and 5 more".
std::string Listed(std::vector<std::string> names) {
  constexpr size_t kShown = 4;
  std::sort(names.begin(), names.end(), NaturalLess);
  const size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  std::string text = absl::StrJoin(names, ", ");
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

// "hosts a, b and 7 more and domain r".
std::string Members(const Certificate& certificate, const Binding& binding) {
  std::vector<std::string> hosts, domains;
  for (const int32_t host : certificate.hosts) hosts.push_back(binding.host_names[host]);
  for (const int32_t domain : certificate.domains) {
    domains.push_back(binding.domain_names[domain]);
  }
  std::string text;
  if (!hosts.empty()) text = absl::StrCat(hosts.size() == 1 ? "host " : "hosts ", Listed(hosts));
  if (!domains.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : " and ",
                    domains.size() == 1 ? "domain " : "domains ", Listed(domains));
  }
  return text;
}

// "device 3", "devices 0, 1, 2, 3 and 28 more".
std::string Devices(const Certificate& certificate, const Binding& binding) {
  std::vector<std::string> devices;
  for (const int32_t device : certificate.devices) {
    devices.push_back(absl::StrCat(binding.device_ids[device]));
  }
  return absl::StrCat(devices.size() == 1 ? "device " : "devices ", Listed(std::move(devices)));
}

// Places of domains in the natural order of their paths from the root.
std::vector<int32_t> DomainRanks(const Network& network, const Binding& binding) {
  std::vector<std::vector<std::string_view>> paths;  // parents come before children
  for (size_t i = 0; i < network.domains.size(); ++i) {
    const int32_t parent = network.domains[i].parent;
    paths.push_back(parent < 0 ? std::vector<std::string_view>() : paths[parent]);
    paths.back().push_back(binding.domain_names[i]);
  }
  std::vector<int32_t> order(paths.size()), rank(paths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::lexicographical_compare(paths[a].begin(), paths[a].end(), paths[b].begin(),
                                        paths[b].end(), NaturalLess);
  });
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<int32_t>(i);
  return rank;
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (IsDigit(a[i]) && IsDigit(b[j])) {
      const std::string_view x = Number(a, i), y = Number(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      i = x.data() + x.size() - a.data();
      j = y.data() + y.size() - b.data();
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

std::string Names::Nic(int32_t nic) const {
  const int32_t host = network_.nics[nic].host;
  const std::vector<int32_t>& nics = network_.hosts[host].nics;
  const auto at = std::find(nics.begin(), nics.end(), nic);
  return absl::StrCat("NIC ", at - nics.begin(), " of host ", Host(host));
}

std::string FabricBoundInWords(const Plan& plan, const Binding& binding) {
  const Certificate& certificate = plan.fabric_bound_certificate();
  if (certificate.kind == Certificate::Kind::kNone) return "no device has to move anything";
  const double bytes = static_cast<double>(certificate.bits) / 8;
  const double capacity = static_cast<double>(certificate.capacity);
  const bool one = certificate.devices.size() == 1;
  const auto text = [&](const char* does, const char* what, const char* over) {
    return absl::StrFormat("%s %s %s %s: at %s/s of %s %s, %s", Devices(certificate, binding), does,
                           BytesText(bytes), what, BytesText(capacity), one ? "its" : "their", over,
                           SecondsText(bytes / capacity));
  };
  constexpr const char* kBoth = "fabric and NIC together";
  switch (certificate.kind) {
    case Certificate::Kind::kNone:
    case Certificate::Kind::kRelay:
      break;
    case Certificate::Kind::kIngress:
      return text("must receive", "that it does not hold", kBoth);
    case Certificate::Kind::kEgress:
      return text(one ? "alone holds" : "alone hold", "that others need", kBoth);
    case Certificate::Kind::kLocalIngress:
      return text("must receive", "that others of its host hold", "fabric");
    case Certificate::Kind::kLocalEgress:
      return text(one ? "alone of its host holds" : "alone of their host hold",
                  "that others there need", "fabric");
  }
  return "";
}

std::string Words(const Certificate& certificate, const Binding& binding) {
  if (certificate.kind == Certificate::Kind::kNone) return "nothing has to cross the network";
  const std::string who = Members(certificate, binding);
  const bool one = certificate.hosts.size() + certificate.domains.size() == 1;
  const double bytes = static_cast<double>(certificate.bits) / 8;
  const double capacity = static_cast<double>(certificate.capacity);
  const std::string cost =
      absl::StrFormat("at %s/s, %s", BytesText(capacity), SecondsText(bytes / capacity));
  switch (certificate.kind) {
    case Certificate::Kind::kNone:
    case Certificate::Kind::kLocalIngress:  // these two are of devices alone
    case Certificate::Kind::kLocalEgress:
      break;
    case Certificate::Kind::kIngress:
      return absl::StrCat(who, " must receive ", BytesText(bytes),
                          " that none of its devices holds: ", cost);
    case Certificate::Kind::kEgress:
      return absl::StrCat(who, one ? " alone holds " : " alone hold ", BytesText(bytes),
                          " that others need: ", cost);
    case Certificate::Kind::kRelay:
      return absl::StrCat(who, " must send ", BytesText(bytes), " without help of third hosts",
                          binding.domain_names.empty() ? "" : " and with no domain entered twice",
                          ", copies for each other included: ", cost);
  }
  return "";
}

std::string BoundInWords(const Plan& plan, const Binding& binding) {
  std::string text = Words(plan.lower_bound_certificate(), binding);
  if (plan.summary().lower_bound_seconds < plan.summary().routing_bound_seconds) {
    absl::StrAppend(&text, "; without third hosts, ",
                    Words(plan.routing_bound_certificate(), binding));
  }
  return text;
}

std::vector<int32_t> HostsByName(const Binding& binding) {
  std::vector<int32_t> hosts(binding.host_names.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  std::stable_sort(hosts.begin(), hosts.end(), [&](int32_t a, int32_t b) {
    return NaturalLess(binding.host_names[a], binding.host_names[b]);
  });
  return hosts;
}

std::vector<int32_t> HostsByRack(const Network& network, const Binding& binding) {
  const std::vector<int32_t> rank = DomainRanks(network, binding);
  const auto rank_of = [&](int32_t host) {
    const int32_t rack = network.hosts[host].parent;
    return rack < 0 ? -1 : rank[rack];
  };
  std::vector<int32_t> hosts = HostsByName(binding);
  std::stable_sort(hosts.begin(), hosts.end(),
                   [&](int32_t a, int32_t b) { return rank_of(a) < rank_of(b); });
  return hosts;
}

}  // namespace remesh::planner
