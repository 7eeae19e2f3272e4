// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/harness.h"
#include "worker/nccl/testing/fake/fake_gpu_streams.h"
#include "worker/nccl/nccl_group.h"
#include "worker/nccl/testing/host_stream.h"
#include "worker/transport/testing/memory_transport.h"

namespace remesh::worker::conformance {

// One message of a plan, between devices that are counted over all hosts.
struct NcclMessage {
  int window = 0;
  int from = 0;
  int to = 0;
  size_t bytes = 0;
  size_t awaited_bytes = 0;  // 0: as many as are sent
};

// The devices of some hosts. They outlive attempts.
class NcclDevices {
 public:
  NcclDevices(int hosts, int per_host);

  int hosts() const { return static_cast<int>(streams_.size()); }
  int count() const { return hosts() * per_host_; }
  int HostOf(int device) const { return device / per_host_; }
  int LocalOf(int device) const { return device % per_host_; }
  HostStream& device(int device) { return *devices_[device]; }
  GpuStreams& streams(int host) { return *streams_[host]; }

 private:
  static constexpr size_t kMemoryBytes = size_t{4} << 20;
  const int per_host_;
  std::vector<std::unique_ptr<HostStream>> devices_;
  std::vector<std::unique_ptr<FakeGpuStreams>> streams_;  // by host
};

// An attempt: a plan's messages between hosts that connect over memory and exchange by the fake
// NCCL, all driven by the test's thread.
class NcclMesh {
 public:
  // windows: of the plan; at least those that messages name.
  NcclMesh(NcclDevices& devices, std::vector<NcclMessage> messages, int windows,
           NcclOptions options = {});
  // Aborts and drains every group, then checks that every operation ended exactly once, inside its
  // own group's Progress().
  ~NcclMesh();

  void Open(int host);
  void OpenAll();
  NcclGroup& group(int host) { return *hosts_[host].group; }

  // The host's operations of the window.
  void Post(int host, int window);
  void PostAll();
  // The host does nothing any more, and the others' connections to it break.
  void Kill(int host);
  void Abort(int host);

  bool ProgressUntil(const std::function<bool()>& done);
  void ProgressFor(std::chrono::milliseconds time);
  // All that was posted has ended; of one host, or all.
  bool Finish(int host = -1);
  bool Quiesce(int host);

  // The ends of the host's operations.
  std::vector<const Outcome*> outcomes(int host) const;
  // Codes of the host's operations, each once.
  std::vector<absl::StatusCode> codes(int host) const;
  const std::vector<int>& windows_ended(int host) const { return hosts_[host].windows_ended; }
  int stuck(int host) const { return hosts_[host].stuck; }
  // Whether every message is where it belongs, byte for byte, and nothing beside it was touched.
  bool AllArrived();
  // What the device's memory holds.
  std::vector<std::byte> Memory(int device);

  std::function<void(int host, int window)> on_window;  // all its operations have ended

 private:
  struct Posted {
    size_t message;
    bool send;
    Outcome outcome;
  };
  struct Host {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<PeerGroup> bootstrap;
    std::unique_ptr<NcclGroup> group;
    std::vector<std::unique_ptr<Posted>> posted;
    std::vector<int> left;  // operations of each window that have not ended
    std::vector<int> windows_ended;
    int stuck = 0;
    bool killed = false;
  };

  std::vector<Peer> Table() const;
  PeerGroup::Done Watch(int host, Posted* posted);
  bool Progress();
  size_t Awaited(size_t message) const;

  NcclDevices& devices_;
  const std::vector<NcclMessage> messages_;
  const NcclOptions options_;
  std::vector<std::pair<size_t, size_t>> places_;  // of messages: at the sender, at the receiver
  MemoryFabric fabric_;
  std::vector<Host> hosts_;
  int progressing_ = -1;
};

}  // namespace remesh::worker::conformance
