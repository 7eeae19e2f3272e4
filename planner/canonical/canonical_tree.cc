// SPDX-License-Identifier: Apache-2.0
#include "planner/canonical/canonical_tree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace remesh::planner {
namespace {

struct LabelledHost {
  Hash128 label;
  Host host;  // devices in canonical order, still with the caller's ids
};

// Indices 0..n-1 in the order of their labels, ties in index order.
std::vector<size_t> OrderOf(const std::vector<Hash128>& labels) {
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return labels[a] < labels[b]; });
  return order;
}

struct NicGroup {
  Hash128 label;
  std::vector<int64_t> devices;
};

NicGroup MakeNicGroup(std::vector<int64_t> devices, const std::function<Hash128(int64_t)>& label) {
  std::vector<Hash128> labels;
  for (int64_t id : devices) labels.push_back(label(id));
  NicGroup group{.label = {devices.size(), 0}, .devices = {}};
  for (size_t i : OrderOf(labels)) {
    group.devices.push_back(devices[i]);
    group.label = Mixed(Mixed(group.label, labels[i].high), labels[i].low);
  }
  return group;
}

// Sorts the NIC groups by their labels, among groups of equal size: the rule that device i of n
// uses NIC floor(i * nics / n) decides which places take more devices.
LabelledHost Labelled(const Host& host, const std::function<Hash128(int64_t)>& label) {
  const int64_t n = static_cast<int64_t>(host.device_ids.size());
  LabelledHost labelled{.label = {}, .host = host};
  labelled.host.name.clear();
  labelled.host.nics = static_cast<int32_t>(std::min<int64_t>(host.nics, n));
  std::vector<std::vector<int64_t>> devices(labelled.host.nics);
  for (int64_t i = 0; i < n; ++i) {
    devices[i * labelled.host.nics / n].push_back(host.device_ids[i]);
  }
  std::map<size_t, std::vector<NicGroup>> groups_of_size;
  for (const auto& group : devices) {
    groups_of_size[group.size()].push_back(MakeNicGroup(group, label));
  }
  for (auto& [size, groups] : groups_of_size) {
    std::stable_sort(groups.begin(), groups.end(),
                     [](const NicGroup& a, const NicGroup& b) { return a.label < b.label; });
  }
  Hasher hasher;
  hasher.AddDouble(host.nic_bytes_per_second).Add(labelled.host.nics);
  hasher.AddDouble(host.fabric_bytes_per_second).Add(n);
  AddUnlessDefault(host.message_costs, hasher);
  labelled.host.device_ids.clear();
  std::map<size_t, size_t> next;
  for (const auto& place : devices) {
    const NicGroup& group = groups_of_size[place.size()][next[place.size()]++];
    hasher.AddHash(group.label);
    labelled.host.device_ids.insert(labelled.host.device_ids.end(), group.devices.begin(),
                                    group.devices.end());
  }
  labelled.label = hasher.Digest();
  return labelled;
}

// The domain tree with labels from the leaves up. Node 0 is the root above all hosts; node i + 1 is
// domain i.
class Tree {
 public:
  Tree(const Topology& topology, const std::function<bool(int64_t)>& used,
       const std::function<Hash128(int64_t)>& label)
      : topology_(topology), hosts_(topology.hosts.size()), nodes_(topology.domains.size() + 1) {
    absl::flat_hash_map<std::string, size_t> node_of;
    node_of[""] = 0;
    for (size_t i = 0; i < topology.domains.size(); ++i) node_of[topology.domains[i].name] = i + 1;
    for (size_t h = 0; h < hosts_.size(); ++h) {
      const Host& host = topology.hosts[h];
      if (!std::any_of(host.device_ids.begin(), host.device_ids.end(), used)) continue;
      hosts_[h] = Labelled(host, label);
      nodes_[node_of[host.parent]].hosts.push_back(h);
    }
    for (size_t i = 0; i < topology.domains.size(); ++i) {
      nodes_[node_of[topology.domains[i].parent]].domains.push_back(i + 1);
    }
    LabelDomains();
  }

  CanonicalTree Numbered() {
    CanonicalTree tree;
    Number(tree);
    return tree;
  }

 private:
  struct Node {
    std::vector<size_t> hosts;
    std::vector<size_t> domains;
    Hash128 label;
    bool used = false;
  };

  // Children before parents, without recursion: the tree may be as deep as it has domains.
  void LabelDomains() {
    std::vector<size_t> preorder = {0};
    for (size_t i = 0; i < preorder.size(); ++i) {
      const Node& node = nodes_[preorder[i]];
      preorder.insert(preorder.end(), node.domains.begin(), node.domains.end());
    }
    for (auto i = preorder.rbegin(); i != preorder.rend(); ++i) LabelDomain(*i);
  }

  void LabelDomain(size_t index) {
    Node& node = nodes_[index];
    std::erase_if(node.domains, [&](size_t child) { return !nodes_[child].used; });
    node.used = !node.hosts.empty() || !node.domains.empty();
    Sort(node.hosts, [&](size_t host) { return hosts_[host].label; });
    Sort(node.domains, [&](size_t child) { return nodes_[child].label; });
    Hasher hasher;
    if (index > 0) {
      const Domain& domain = topology_.domains[index - 1];
      hasher.AddDouble(domain.egress_bytes_per_second).AddDouble(domain.ingress_bytes_per_second);
    }
    hasher.Add(static_cast<int64_t>(node.hosts.size()));
    for (size_t host : node.hosts) hasher.AddHash(hosts_[host].label);
    for (size_t child : node.domains) hasher.AddHash(nodes_[child].label);
    node.label = hasher.Digest();
  }

  template <typename LabelOf>
  static void Sort(std::vector<size_t>& items, const LabelOf& label_of) {
    std::stable_sort(items.begin(), items.end(),
                     [&](size_t a, size_t b) { return label_of(a) < label_of(b); });
  }

  // Depth first, hosts of a node before its domains.
  void Number(CanonicalTree& tree) {
    std::vector<std::pair<size_t, std::string>> stack = {{0, ""}};  // node, its canonical name
    while (!stack.empty()) {
      const auto [index, name] = stack.back();
      stack.pop_back();
      for (size_t host : nodes_[index].hosts) AddHost(host, name, tree);
      const std::vector<size_t>& domains = nodes_[index].domains;
      for (size_t i = 0; i < domains.size(); ++i) {
        const Domain& domain = topology_.domains[domains[i] - 1];
        tree.domain_names.push_back(domain.name);
        tree.topology.domains.push_back(
            {.name = absl::StrCat(tree.topology.domains.size()),
             .parent = name,
             .egress_bytes_per_second = domain.egress_bytes_per_second,
             .ingress_bytes_per_second = domain.ingress_bytes_per_second});
      }
      const size_t first = tree.topology.domains.size() - domains.size();
      for (size_t i = domains.size(); i-- > 0;) {
        stack.emplace_back(domains[i], tree.topology.domains[first + i].name);
      }
    }
  }

  void AddHost(size_t index, const std::string& parent, CanonicalTree& tree) {
    Host host = std::move(hosts_[index].host);
    host.parent = parent;
    host.capacities_assumed = false;
    for (int64_t& id : host.device_ids) {
      tree.device_ids.push_back(id);
      id = static_cast<int64_t>(tree.device_ids.size()) - 1;
    }
    tree.topology.hosts.push_back(std::move(host));
    tree.host_names.push_back(topology_.hosts[index].name);
    tree.host_indices.push_back(static_cast<int32_t>(index));
  }

  const Topology& topology_;
  std::vector<LabelledHost> hosts_;
  std::vector<Node> nodes_;
};

}  // namespace

CanonicalTree CanonicalizeTree(const Topology& topology, const std::function<bool(int64_t)>& used,
                               const std::function<Hash128(int64_t)>& label) {
  return Tree(topology, used, label).Numbered();
}

}  // namespace remesh::planner
