// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/nccl_mesh.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/nccl/testing/fake_library.h"

namespace remesh::worker::conformance {
namespace {

constexpr std::byte kUntouched{0xee};
constexpr size_t kGap = 16;  // between messages in memory, which stays untouched

}  // namespace

NcclDevices::NcclDevices(int hosts, int per_host) : per_host_(per_host) {
  for (int host = 0; host < hosts; ++host) {
    std::vector<RemeshFakeStream*> streams;
    for (int i = 0; i < per_host; ++i) {
      devices_.push_back(std::make_unique<HostStream>(kMemoryBytes));
      streams.push_back(&devices_.back()->stream());
    }
    streams_.push_back(std::make_unique<FakeGpuStreams>(streams));
  }
}

NcclMesh::NcclMesh(NcclDevices& devices, std::vector<NcclMessage> messages, int windows,
                   NcclOptions options)
    : devices_(devices),
      messages_(std::move(messages)),
      options_(options),
      hosts_(devices.hosts()) {
  std::vector<size_t> used(devices.count(), kGap);
  for (int device = 0; device < devices.count(); ++device) {
    auto memory = devices.device(device).host();
    std::fill(memory.begin(), memory.end(), kUntouched);
  }
  for (size_t i = 0; i < messages_.size(); ++i) {
    const NcclMessage& m = messages_[i];
    const size_t at = std::exchange(used[m.from], used[m.from] + m.bytes + kGap);
    places_.emplace_back(at, std::exchange(used[m.to], used[m.to] + Awaited(i) + kGap));
    REMESH_CHECK(used[m.from] <= devices.device(m.from).host().size());
    const std::vector<std::byte> pattern = Pattern(m.bytes, static_cast<uint32_t>(i));
    std::copy(pattern.begin(), pattern.end(), devices.device(m.from).host().begin() + at);
  }
  for (int host = 0; host < devices.hosts(); ++host) {
    hosts_[host].transport = fabric_.NewTransport(absl::StrCat("host", host));
    hosts_[host].left.resize(windows);
  }
}

NcclMesh::~NcclMesh() {
  for (size_t host = 0; host < hosts_.size(); ++host) {
    hosts_[host].killed = false;  // so that what it left behind comes to an end
    Abort(static_cast<int>(host));
  }
  for (size_t host = 0; host < hosts_.size(); ++host)
    EXPECT_TRUE(Quiesce(static_cast<int>(host))) << "host " << host << " does not come to rest";
  for (const Host& host : hosts_) {
    for (const auto& posted : host.posted) {
      EXPECT_EQ(posted->outcome.calls, 1);
      EXPECT_TRUE(posted->outcome.inside_progress);
    }
  }
}

size_t NcclMesh::Awaited(size_t message) const {
  const NcclMessage& m = messages_[message];
  return m.awaited_bytes == 0 ? m.bytes : m.awaited_bytes;
}

std::vector<Peer> NcclMesh::Table() const {
  std::vector<Peer> table;
  for (size_t host = 0; host < hosts_.size(); ++host)
    table.push_back({absl::StrCat("host", host), absl::StrCat("token of host ", host, ".")});
  return table;
}

void NcclMesh::Open(int host) {
  Host& at = hosts_[host];
  auto bootstrap = at.transport->Open(host, Table());
  REMESH_CHECK(bootstrap.ok());
  at.bootstrap = *std::move(bootstrap);
  NcclSetup setup{.api = &FakeNccl(),
                  .streams = &devices_.streams(host),
                  .bootstrap = at.bootstrap.get(),
                  .self = host,
                  .options = options_};
  for (size_t i = 0; i < hosts_.size(); ++i) setup.hosts.push_back(absl::StrCat("host", i));
  for (int device = 0; device < devices_.count(); ++device) {
    setup.ranks.push_back({static_cast<uint32_t>(100 + device), devices_.HostOf(device),
                           devices_.LocalOf(device), device});
  }
  const auto count = static_cast<int>(hosts_.size());
  setup.whole = {.hosts = count, .ranks = devices_.count(), .place = host};
  setup.notify = [transport = at.transport.get()] { transport->Wake(); };
  setup.on_stuck = [&at] { ++at.stuck; };
  at.group = std::make_unique<NcclGroup>(std::move(setup));
  for (const NcclMessage& m : messages_)
    at.left[m.window] += (devices_.HostOf(m.from) == host) + (devices_.HostOf(m.to) == host);
  at.group->Expect(std::vector<int32_t>(at.left.begin(), at.left.end()));
}

void NcclMesh::OpenAll() {
  for (size_t host = 0; host < hosts_.size(); ++host) Open(static_cast<int>(host));
}

PeerGroup::Done NcclMesh::Watch(int host, Posted* posted) {
  return [this, host, posted](absl::Status status) {
    Host& at = hosts_[host];
    ++posted->outcome.calls;
    posted->outcome.inside_progress = progressing_ == host;
    posted->outcome.status = std::move(status);
    const int window = messages_[posted->message].window;
    if (--at.left[window] > 0) return;
    at.windows_ended.push_back(window);
    if (on_window) on_window(host, window);
  };
}

void NcclMesh::Post(int host, int window) {
  Host& at = hosts_[host];
  for (size_t i = 0; i < messages_.size(); ++i) {
    const NcclMessage& m = messages_[i];
    const MessageTag tag{static_cast<uint32_t>(window), 100u + m.from, 100u + m.to, 0};
    for (const bool send : {false, true}) {
      const int own = send ? m.from : m.to, other = send ? m.to : m.from;
      if (m.window != window || devices_.HostOf(own) != host) continue;
      Posted* posted = at.posted.emplace_back(new Posted{i, send, {}}).get();
      const auto memory = devices_.device(own).memory();
      const int peer = devices_.HostOf(other);
      if (send) {
        at.group->Send(peer, tag, memory.subspan(places_[i].first, m.bytes), Watch(host, posted));
      } else {
        at.group->Receive(peer, tag, memory.subspan(places_[i].second, Awaited(i)),
                          Watch(host, posted));
      }
    }
  }
}

void NcclMesh::PostAll() {
  for (size_t host = 0; host < hosts_.size(); ++host) {
    for (size_t window = 0; window < hosts_[host].left.size(); ++window)
      Post(static_cast<int>(host), static_cast<int>(window));
  }
}

void NcclMesh::Kill(int host) {
  fabric_.Kill(absl::StrCat("host", host));
  hosts_[host].killed = true;
}

void NcclMesh::Abort(int host) {
  Host& at = hosts_[host];
  if (at.bootstrap != nullptr) at.bootstrap->Abort();
  if (at.group != nullptr) at.group->Abort();
}

bool NcclMesh::Progress() {
  bool any = false;
  for (size_t host = 0; host < hosts_.size(); ++host) {
    Host& at = hosts_[host];
    if (at.killed) continue;
    any |= at.transport->Progress();
    progressing_ = static_cast<int>(host);
    if (at.group != nullptr) any |= at.group->Progress();
    progressing_ = -1;
  }
  return any;
}

bool NcclMesh::ProgressUntil(const std::function<bool()>& done) {
  return conformance::ProgressUntil([this] { return Progress(); }, done);
}

void NcclMesh::ProgressFor(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  ProgressUntil([&] { return std::chrono::steady_clock::now() > until; });
}

bool NcclMesh::Finish(int host) {
  return ProgressUntil([&] {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (host != -1 && host != static_cast<int>(i)) continue;
      for (const auto& posted : hosts_[i].posted) {
        if (!posted->outcome.done()) return false;
      }
    }
    return true;
  });
}

bool NcclMesh::Quiesce(int host) {
  const Host& at = hosts_[host];
  return ProgressUntil(
      [&] { return at.group == nullptr || (at.group->quiesced() && at.bootstrap->quiesced()); });
}

std::vector<const Outcome*> NcclMesh::outcomes(int host) const {
  std::vector<const Outcome*> outcomes;
  for (const auto& posted : hosts_[host].posted) outcomes.push_back(&posted->outcome);
  return outcomes;
}

std::vector<absl::StatusCode> NcclMesh::codes(int host) const {
  std::vector<absl::StatusCode> codes;
  for (const Outcome* outcome : outcomes(host)) codes.push_back(outcome->code());
  std::sort(codes.begin(), codes.end());
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  return codes;
}

std::vector<std::byte> NcclMesh::Memory(int device) {
  const auto memory = devices_.device(device).host();
  return {memory.begin(), memory.end()};
}

bool NcclMesh::AllArrived() {
  std::vector<std::vector<std::byte>> expected;
  for (int device = 0; device < devices_.count(); ++device)
    expected.emplace_back(devices_.device(device).host().size(), kUntouched);
  for (size_t i = 0; i < messages_.size(); ++i) {
    const NcclMessage& m = messages_[i];
    const std::vector<std::byte> pattern = Pattern(m.bytes, static_cast<uint32_t>(i));
    std::copy(pattern.begin(), pattern.end(), expected[m.from].begin() + places_[i].first);
    std::copy(pattern.begin(), pattern.end(), expected[m.to].begin() + places_[i].second);
  }
  for (int device = 0; device < devices_.count(); ++device) {
    if (!std::ranges::equal(expected[device], devices_.device(device).host())) return false;
  }
  return true;
}

}  // namespace remesh::worker::conformance
