// SPDX-License-Identifier: Apache-2.0
#include "worker/local/host_facts.h"

#include <algorithm>

namespace remesh::worker {

HostFacts::HostFacts(const v1::Register& identity, const AdvertisedServer& server) {
  facts_.set_host(identity.host());
  facts_.set_server_address(server.address);
  facts_.set_tls_server_name(server.tls_server_name);
  for (const v1::WorkerDevice& device : identity.devices()) {
    const int index = facts_.devices_size();
    v1::HostDevice& one = *facts_.add_devices();
    one.set_id(device.id());
    one.set_index(index);
    one.set_kind(device.kind() == v1::WorkerDevice::KIND_CUDA ? "cuda" : "host");
    one.set_memory_bytes(device.memory_bytes());
  }
}

void HostFacts::OnWelcome(const v1::Welcome& welcome) {
  facts_.set_cluster_uid(welcome.cluster_uid());
  // A server of an earlier version may name none.
  const int count = std::min(facts_.devices_size(), welcome.device_ids_size());
  for (int i = 0; i < count; ++i) facts_.mutable_devices(i)->set_id(welcome.device_ids(i));
  facts_.set_attached(true);
  welcomed_ = true;
}

}  // namespace remesh::worker
