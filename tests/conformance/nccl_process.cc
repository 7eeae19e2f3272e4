// SPDX-License-Identifier: Apache-2.0
// Two workers as they are in earnest: processes that connect over TCP and exchange by NCCL, of
// which one is killed.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/check.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/process_victim.h"
#include "worker/nccl/nccl_group.h"
#include "worker/nccl/testing/fake/fake_gpu_streams.h"
#include "worker/nccl/testing/fake_library.h"
#include "worker/nccl/testing/host_stream.h"
#include "worker/transport/tcp_transport.h"

namespace remesh::worker::conformance {
namespace {

constexpr size_t kBytes = 300000;
// In window 0 the first host's device d sends to the second's, which sends it back in window 1. For
// window 2 only the first host has anything ready.
constexpr int kDevices = 2, kWindows = 3;

// One host: the parent is 0, the child 1.
class TwoHosts {
 public:
  TwoHosts(Transport& transport, int self, const std::vector<Peer>& peers)
      : transport_(transport), self_(self) {
    auto bootstrap = transport.Open(self, peers);
    REMESH_CHECK(bootstrap.ok());
    bootstrap_ = *std::move(bootstrap);
    NcclSetup setup{.api = &FakeNccl(), .streams = &streams_, .bootstrap = bootstrap_.get()};
    setup.self = self;
    setup.hosts = {"parent", "child"};
    for (int host : {0, 1}) {
      for (int i = 0; i < kDevices; ++i) {
        const int rank = host * kDevices + i;
        setup.ranks.push_back({Number(host, i), host, i, rank});
      }
    }
    setup.whole = {.hosts = 2, .ranks = 2 * kDevices, .place = self};
    setup.notify = [&transport] { transport.Wake(); };
    setup.on_stuck = [] { REMESH_CHECK(false); };
    group_ = std::make_unique<NcclGroup>(std::move(setup));
    group_->Expect(std::vector<int32_t>(kWindows, kDevices));
  }
  ~TwoHosts() {
    group_->Abort();
    bootstrap_->Abort();
    REMESH_CHECK(Until([&] { return group_->quiesced() && bootstrap_->quiesced(); }));
  }

  void Post(uint32_t window) {
    const int sender = window % 2;
    for (int i = 0; i < kDevices; ++i) {
      const MessageTag tag{window, Number(sender, i), Number(1 - sender, i), 0};
      // What comes back is behind what was sent.
      const size_t offset = self_ == 0 && window == 1 ? kBytes : 0;
      const auto memory = devices_[i].memory().subspan(offset, kBytes);
      auto done = [this](absl::Status status) { ended.push_back(std::move(status)); };
      if (sender == self_) {
        group_->Send(1 - self_, tag, memory, done);
      } else {
        group_->Receive(1 - self_, tag, memory, done);
      }
    }
  }
  bool Until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      const bool busy = transport_.Progress() | group_->Progress();
      if (!busy) transport_.Wait(std::chrono::milliseconds(10));
    }
    return done();
  }
  bool Ends(size_t operations) {
    return Until([&] { return ended.size() == operations; });
  }
  std::span<std::byte> Memory(int device) { return devices_[device].host(); }

  std::vector<absl::Status> ended;

 private:
  static uint32_t Number(int host, int device) { return 10u * host + device; }

  Transport& transport_;
  const int self_;
  HostStream devices_[kDevices]{HostStream(2 * kBytes), HostStream(2 * kBytes)};
  FakeGpuStreams streams_{{&devices_[0].stream(), &devices_[1].stream()}};
  std::unique_ptr<PeerGroup> bootstrap_;
  std::unique_ptr<NcclGroup> group_;
};

std::unique_ptr<Transport> NewLoopback() { return OrDie(NewTcpTransport({})); }

TEST(NcclProcesses, ExchangeUntilOneIsKilled) {
  const auto transport = NewLoopback();
  const auto child = NewProcessVictim();
  const std::vector<Peer> peers = {{transport->address(), "token of parent."},
                                   {child->address(), "token of child.."}};
  TwoHosts host(*transport, 0, peers);
  child->Start(peers);
  for (int i = 0; i < kDevices; ++i) {
    const auto pattern = Pattern(kBytes, i);
    std::copy(pattern.begin(), pattern.end(), host.Memory(i).begin());
  }
  host.Post(0);
  host.Post(1);
  ASSERT_TRUE(host.Ends(2 * kDevices));
  for (const absl::Status& status : host.ended) EXPECT_TRUE(status.ok()) << status;
  for (int i = 0; i < kDevices; ++i) {
    EXPECT_EQ(std::memcmp(host.Memory(i).data(), host.Memory(i).data() + kBytes, kBytes), 0);
  }
  host.Post(2);
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  host.Until([&] { return std::chrono::steady_clock::now() > soon; });
  EXPECT_EQ(host.ended.size(), size_t{2 * kDevices}) << "the child has nothing for window 2";
  child->Kill();
  ASSERT_TRUE(host.Ends(3 * kDevices));
  EXPECT_EQ(host.ended.back().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(host.ended.back().message().find(peers[1].address), std::string::npos)
      << host.ended.back();
}

int RunChild() {
  const auto transport = NewLoopback();
  TwoHosts host(*transport, 1, MeetParent(*transport));
  alarm(60);  // in case it is not killed
  host.Post(0);
  REMESH_CHECK(host.Ends(kDevices));
  host.Post(1);
  while (true) host.Until([] { return false; });
}

}  // namespace
}  // namespace remesh::worker::conformance

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--victim") == 0)
    return remesh::worker::conformance::RunChild();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
