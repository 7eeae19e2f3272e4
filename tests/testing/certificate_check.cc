// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/certificate_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/for_each_index.h"

namespace remesh::testing {

using planner::ArraySpec;
using planner::Certificate;
using planner::ReshardRequest;

namespace {

// Who holds and who needs each element: hosts, by (subgroup, index).
struct Spread {
  std::set<int32_t> holders;
  std::set<int32_t> needers;
  std::set<int64_t> holding_devices;
  std::set<int64_t> needing_devices;
};

class Counter {
 public:
  Counter(const ReshardRequest& request, const Certificate& certificate)
      : request_(request), certificate_(certificate) {
    for (size_t h = 0; h < request.topology.hosts.size(); ++h) {
      for (int64_t id : request.topology.hosts[h].device_ids)
        host_of_[id] = static_cast<int32_t>(h);
    }
    const auto& lost = request.options.lost_device_ids;
    lost_.insert(lost.begin(), lost.end());
    for (const ArraySpec& array : request.arrays) {
      for (const planner::Placement* p : {&array.source, &array.target}) {
        for (int64_t id : *p->devices) {
          if (!lost_.contains(id)) carrying_.insert(id);
        }
      }
    }
    for (size_t d = 0; d < request.topology.domains.size(); ++d) {
      domain_of_[request.topology.domains[d].name] = static_cast<int32_t>(d);
    }
  }

  // Bits that prove the bound.
  int64_t Bits() {
    int64_t bits = 0;
    for (const ArraySpec& array : request_.arrays) {
      std::map<std::pair<int64_t, int64_t>, Spread> elements;
      Collect(array, array.source, false, elements);
      Collect(array, array.target, true, elements);
      for (const auto& [key, spread] : elements) {
        if (spread.holders.empty()) continue;  // lost: no host can send it
        bits += Times(spread) * planner::BitWidth(array.element_type);
      }
    }
    return bits;
  }

  // Capacity of the members in the certificate's direction, in bits per second.
  double Capacity() {
    double bytes_per_second = 0;
    for (int32_t h : certificate_.hosts) {
      const planner::Host& host = request_.topology.hosts[h];
      std::set<int64_t> nics;
      for (size_t i = 0; i < host.device_ids.size(); ++i) {
        if (!carrying_.contains(host.device_ids[i])) continue;
        nics.insert(static_cast<int64_t>(i) * host.nics /
                    static_cast<int64_t>(host.device_ids.size()));
      }
      bytes_per_second += host.nic_bytes_per_second * static_cast<double>(nics.size());
    }
    for (const int32_t device : certificate_.devices) {
      const planner::Host& host = request_.topology.hosts[host_of_.at(device)];
      bytes_per_second += host.fabric_bytes_per_second;
      if (!IsLocal() && carrying_.contains(device)) bytes_per_second += host.nic_bytes_per_second;
    }
    for (int32_t d : certificate_.domains) {
      const planner::Domain& domain = request_.topology.domains[d];
      bytes_per_second += certificate_.kind == Certificate::Kind::kIngress
                              ? domain.ingress_bytes_per_second
                              : domain.egress_bytes_per_second;
    }
    return bytes_per_second * 8;
  }

 private:
  bool IsLocal() const {
    return certificate_.kind == Certificate::Kind::kLocalIngress ||
           certificate_.kind == Certificate::Kind::kLocalEgress;
  }

  void Collect(const ArraySpec& array, const planner::Placement& placement, bool is_target,
               std::map<std::pair<int64_t, int64_t>, Spread>& elements) {
    for (size_t t = 0; t < placement.layout->tiles.size(); ++t) {
      const planner::Tile& tile = placement.layout->tiles[t];
      std::set<int32_t> hosts;
      std::set<int64_t> devices;
      for (int32_t p : placement.layout->PositionsOf(t)) {
        const int64_t id = (*placement.devices)[p];
        if (lost_.contains(id)) continue;
        hosts.insert(host_of_.at(id));
        devices.insert(id);
      }
      for (const planner::Box& box : tile.boxes) {
        ForEachIndex(array.shape, box, [&](int64_t index) {
          Spread& spread = elements[{tile.subgroup, index}];
          (is_target ? spread.needers : spread.holders).insert(hosts.begin(), hosts.end());
          (is_target ? spread.needing_devices : spread.holding_devices)
              .insert(devices.begin(), devices.end());
        });
      }
    }
  }

  // Whether the host is a member or is in one; with the member's name, so that two hosts of one
  // domain are one.
  std::string MemberOf(int32_t host) const {
    const auto& hosts = certificate_.hosts;
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) return absl::StrCat("h", host);
    std::string parent = request_.topology.hosts[host].parent;
    while (!parent.empty()) {
      const int32_t domain = domain_of_.at(parent);
      const auto& domains = certificate_.domains;
      if (std::find(domains.begin(), domains.end(), domain) != domains.end()) {
        return absl::StrCat("d", domain);
      }
      parent = request_.topology.domains[domain].parent;
    }
    return "";
  }

  std::set<std::string> MembersOf(const std::set<int32_t>& hosts) const {
    std::set<std::string> members;
    for (int32_t host : hosts) members.insert(MemberOf(host));
    return members;
  }

  // How often the members must receive or send this element.
  int64_t Times(const Spread& spread) const {
    if (!certificate_.devices.empty()) return TimesOfDevices(spread);
    const std::set<std::string> holders = MembersOf(spread.holders);
    const std::set<std::string> needers = MembersOf(spread.needers);
    if (certificate_.kind == Certificate::Kind::kIngress) {
      const std::string member = certificate_.hosts.empty()
                                     ? absl::StrCat("d", certificate_.domains.front())
                                     : absl::StrCat("h", certificate_.hosts.front());
      return needers.contains(member) && !holders.contains(member) ? 1 : 0;
    }
    if (certificate_.kind == Certificate::Kind::kRelay) {
      std::set<int32_t> hosts = spread.holders;
      hosts.insert(spread.needers.begin(), spread.needers.end());
      return RelayTimes(spread, hosts, 0);
    }
    if (holders.contains("")) return 0;  // somebody else may send it
    // Needers outside the domains that hold it. Outside of all members each host counts for itself.
    for (int32_t host : spread.needers) {
      const std::string member = MemberOf(host);
      if (member.empty() || !holders.contains(member)) return 1;
    }
    return 0;
  }

  // The same for a certificate of devices.
  int64_t TimesOfDevices(const Spread& spread) const {
    const std::set<int64_t> members(certificate_.devices.begin(), certificate_.devices.end());
    std::set<int64_t> holders = spread.holding_devices;
    std::set<int64_t> in_need;
    for (const int64_t id : spread.needing_devices) {
      if (!holders.contains(id)) in_need.insert(id);
    }
    if (IsLocal()) {
      const int32_t host = host_of_.at(*members.begin());
      for (const int64_t member : members) {
        if (host_of_.at(member) != host) return 0;  // such a certificate proves nothing
      }
      const auto elsewhere = [&](int64_t id) { return host_of_.at(id) != host; };
      std::erase_if(holders, elsewhere);
      std::erase_if(in_need, elsewhere);
    }
    if (holders.empty()) return 0;
    const bool in = certificate_.kind == Certificate::Kind::kIngress ||
                    certificate_.kind == Certificate::Kind::kLocalIngress;
    if (in) return members.size() == 1 && in_need.contains(*members.begin()) ? 1 : 0;
    const bool alone =
        std::includes(members.begin(), members.end(), holders.begin(), holders.end());
    return alone && !in_need.empty() ? 1 : 0;
  }

  // The host and what it is in, from the top.
  std::vector<std::string> ChainOf(int32_t host) const {
    std::vector<std::string> chain = {absl::StrCat("h", host)};
    std::string parent = request_.topology.hosts[host].parent;
    while (!parent.empty()) {
      const int32_t domain = domain_of_.at(parent);
      chain.insert(chain.begin(), absl::StrCat("d", domain));
      parent = request_.topology.domains[domain].parent;
    }
    return chain;
  }

  // How often members must send an element that `hosts` hold or need, all that do so below one
  // place of the tree, `level` links from the top: only these hosts send, and every place below
  // that needs the element and does not hold it is entered once, no other ever.
  int64_t RelayTimes(const Spread& spread, const std::set<int32_t>& hosts, size_t level) const {
    std::map<std::string, std::set<int32_t>> below;
    for (int32_t host : hosts) below[ChainOf(host)[level]].insert(host);
    int64_t in_need = 0;
    int64_t holding = 0;
    bool members_hold = true;  // all hosts of the places that hold it lie in members
    int64_t times = 0;
    for (const auto& [place, inside] : below) {
      const auto holds = [&](int32_t host) { return spread.holders.contains(host); };
      const bool held = std::any_of(inside.begin(), inside.end(), holds);
      ++(held ? holding : in_need);
      if (held && MembersOf(inside).contains("")) members_hold = false;
      const std::string member = MemberOf(*inside.begin());
      if (place[0] == 'd' && place != member) times += RelayTimes(spread, inside, level + 1);
    }
    if (in_need == 0) return times;
    if (!MembersOf(hosts).contains("")) return times + in_need - (holding > 0 ? 0 : 1);
    return times + (holding > 0 && members_hold ? 1 : 0);
  }

  const ReshardRequest& request_;
  const Certificate& certificate_;
  std::map<int64_t, int32_t> host_of_;
  std::set<int64_t> lost_;
  std::set<int64_t> carrying_;
  std::map<std::string, int32_t> domain_of_;
};

}  // namespace

absl::Status CheckCertificate(const ReshardRequest& request, const Certificate& certificate,
                              double seconds) {
  if (certificate.kind == Certificate::Kind::kNone) {
    return seconds == 0 ? absl::OkStatus() : absl::InternalError("no proof of a positive bound");
  }
  Counter counter(request, certificate);
  const double capacity = counter.Capacity();
  const double proven = static_cast<double>(counter.Bits()) / capacity;
  // The planner counts in whole bytes per second.
  const size_t members =
      certificate.hosts.size() + certificate.domains.size() + certificate.devices.size();
  const double rounding = 8 * static_cast<double>(members) / capacity;
  if (proven >= seconds * (1 - 1e-9 - rounding)) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(certificate.DebugString(), " proves ", proven, " s, not ", seconds, " s"));
}

}  // namespace remesh::testing
