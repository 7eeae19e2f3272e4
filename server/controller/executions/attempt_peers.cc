// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/attempt_peers.h"

#include <algorithm>
#include <numeric>

#include "base/text/transport_names.h"
#include "server/controller/membership/data_addresses.h"

namespace remesh::server {
namespace {

// 16 random bytes.
std::string MakeToken(const RandomBits& random) {
  std::string token(16, '\0');
  for (size_t half = 0; half < 2; ++half) {
    const uint64_t bits = random();
    for (size_t i = 0; i < 8; ++i) token[half * 8 + i] = static_cast<char>(bits >> (8 * i));
  }
  return token;
}

}  // namespace

std::vector<v1::PeerEntry> MakePeers(const ExecutionSpec& spec, const WorkerRegistry& workers,
                                     const RandomBits& random, bool encrypts_data) {
  // With one host nothing is sent.
  const bool encrypted = encrypts_data && spec.participants.size() > 1;
  std::vector<v1::PeerEntry> peers;
  for (const Participant& participant : spec.participants) {
    const v1::Register& registration = workers.Find(participant.host)->registration;
    v1::PeerEntry& peer = peers.emplace_back();
    peer.set_host(participant.host);
    peer.set_incarnation(registration.incarnation());
    *peer.mutable_data_addresses() = AddressesOf(registration.data_addresses(), encrypted);
    peer.set_token(MakeToken(random));
    *peer.mutable_device_ids() = {participant.device_ids.begin(), participant.device_ids.end()};
  }
  return peers;
}

std::vector<bool> TakeShortPrepare(const ExecutionSpec& spec, const WorkerRegistry& workers) {
  std::vector<bool> takes;
  for (const Participant& participant : spec.participants) {
    takes.push_back(workers.Find(participant.host)->registration.supports_short_prepare());
  }
  return takes;
}

std::set<std::string> HostsOf(const ExecutionSpec& spec) {
  std::set<std::string> hosts;
  for (const Participant& participant : spec.participants) hosts.insert(participant.host);
  return hosts;
}

std::vector<bool> ReceiversOf(const ExecutionSpec& spec) {
  std::vector<bool> receivers;
  for (const Participant& participant : spec.participants)
    receivers.push_back(participant.receives());
  return receivers;
}

DeviceSet ClaimOf(const DeviceSet& devices, const WorkerRegistry& workers) {
  DeviceSet claim = devices;
  for (auto& [host, locals] : claim) {
    const v1::Register& registration = workers.Find(host)->registration;
    const auto& addresses = registration.data_addresses();
    if (std::none_of(addresses.begin(), addresses.end(),
                     [](const auto& address) { return address.transport() == kNcclTransport; })) {
      continue;
    }
    locals.resize(registration.devices_size());
    std::iota(locals.begin(), locals.end(), 0);
  }
  return claim;
}

}  // namespace remesh::server
