// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/element_oracle.h"
#include "worker/execution/testing/cluster.h"
#include "worker/transport/tcp_transport.h"
#include "worker/transport/testing/memory_transport.h"
#include "worker/transport/testing/tapped_transport.h"
#include "worker/transport/ucx_transport.h"

namespace remesh::worker {

inline testing::OracleArray OracleOf(const TestArray& array, uint64_t salt = 7) {
  return {testing::ArrayKey(array.name), *planner::ParseElementType(array.type), array.shape, salt};
}

// The hosts of a test over the transport that the parameter names, driven on the calling thread.
class MoverTest : public ::testing::TestWithParam<std::string> {
 protected:
  ~MoverTest() override { Stop(); }

  // Whether some hosts have GPUs; in "mixed", every second host has none.
  static bool OnGpus() { return GetParam() == "nccl" || GetParam() == "mixed"; }
  static bool OnGpus(int host) {
    return GetParam() == "nccl" || (GetParam() == "mixed" && host % 2 == 0);
  }

  std::unique_ptr<Transport> NewTransport(int host) {
    auto in_memory = fabric_.NewTransport(absl::StrCat("host-", host));
    if (OnGpus(host)) {
      gpus_.push_back(NewSimStreams(case_.devices_per_host));
      return NewSimTransport(std::move(in_memory), gpus_.back().get(), window_timeout_);
    }
    if (GetParam() == "memory" || GetParam() == "mixed") return in_memory;
    auto transport = GetParam() == "ucx" ? NewUcxTransport({}) : NewTcpTransport({});
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *std::move(transport);
  }

  void Start(const TestCase& c, Mover::Options options = {}, std::optional<Tap> tap = {}) {
    case_ = c;
    if (GetParam() == "tcp_in_runs") options.limits.run_bytes = 1;  // however short they are
    std::vector<std::string> addresses;
    std::vector<bool> gpus;
    for (int h = 0; h < c.hosts; ++h) gpus.push_back(OnGpus(h));
    for (int h = 0; h < c.hosts; ++h) {
      auto transport = NewTransport(h);
      addresses.push_back(transport->address());
      if (tap) transport = std::make_unique<TappedTransport>(std::move(transport), *tap);
      hosts_.push_back(std::make_unique<TestHost>(c, h, std::move(transport), options, gpus));
      Fill(*hosts_.back());
    }
    for (auto& host : hosts_) {
      const absl::Status status = host->Open(c, addresses);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  void Fill(TestHost& host) {
    const MappedShards& shards = host.source();
    for (size_t i = 0; i < shards.shards.size(); ++i) {
      std::vector<std::byte> bytes(shards.shards[i].bytes());
      testing::FillBox(OracleOf(case_.arrays[shards.assignment.shards(i).array()]),
                       shards.shards[i].frame, absl::MakeSpan(bytes));
      host.Write(shards, i, bytes);
    }
  }

  void ExpectElements(TestHost& host, const MappedShards& shards) {
    for (size_t i = 0; i < shards.shards.size(); ++i) {
      const ShardView& shard = shards.shards[i];
      const TestArray& array = case_.arrays[shards.assignment.shards(i).array()];
      const auto wrong = testing::CheckBox(OracleOf(array), shard.frame, host.Read(shards, i));
      EXPECT_FALSE(wrong.has_value()) << array.name << shard.frame.DebugString();
    }
  }

  template <typename Predicate>
  bool All(Predicate predicate) {
    return std::all_of(hosts_.begin(), hosts_.end(), [&](auto& host) { return predicate(*host); });
  }

  // Drives every host until `done`; gives up when nothing has moved for long.
  template <typename Predicate>
  bool Until(Predicate done) {
    for (int idle = 0; idle < 20000;) {
      if (done()) return true;
      bool moved = false;
      for (auto& host : hosts_) moved |= host->Turn();
      idle = moved ? 0 : idle + 1;
      if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return done();
  }

  void Grant(int windows) {
    for (auto& host : hosts_) host->mover().Grant(windows);
  }
  void GrantAll() { Grant(case_.windows); }

  // Grants windows; whether all hosts end them, and no others.
  bool Transfer(int windows) {
    Grant(windows);
    return Until([&] { return All([&](TestHost& h) { return h.done_windows == windows; }); });
  }
  bool Transfer() { return Transfer(case_.windows); }

  // Whether all hosts end the check of their sources.
  bool CheckSources() {
    for (auto& host : hosts_) host->mover().Verify();
    return Until([&] { return All([](TestHost& h) { return h.verified.has_value(); }); });
  }

  // Goes on where `done` windows are transferred: with the others, or with the check of sources if
  // there are none. Returns how that ends at `host`.
  absl::Status EndAt(const TestHost& host, int done) {
    GrantAll();
    if (done == case_.windows) {
      for (auto& each : hosts_) each->mover().Verify();
    }
    EXPECT_TRUE(Until([&] { return host.failure || host.verified; }));
    return host.failure ? *host.failure : host.verified.value_or(absl::UnknownError("no end"));
  }

  void ExpectTransferred() {
    ASSERT_TRUE(Transfer());
    for (auto& host : hosts_) ExpectElements(*host, host->target());
  }
  void ExpectVerified() {
    ASSERT_TRUE(CheckSources());
    for (auto& host : hosts_) EXPECT_TRUE(host->verified->ok()) << *host->verified;
  }
  void Run(const TestCase& c, Mover::Options options = {}) {
    Start(c, options);
    ExpectTransferred();
    ExpectVerified();
  }

  // Cuts the files of a side, as another process does, and gives them their
  // length again. pages_come_back: somebody reads them then.
  void CutAndGrow(TestHost& host, const std::string& side, bool pages_come_back) {
    const MappedShards& shards = side == "source" ? host.source() : host.target();
    for (size_t i = 0; i < shards.files.size(); ++i) {
      std::filesystem::resize_file(host.PathOf(side, i), 0);
      std::filesystem::resize_file(host.PathOf(side, i), shards.files[i].bytes().size());
      if (pages_come_back) host.Read(shards, i);
    }
  }
  bool Stop() {
    for (auto& host : hosts_) host->mover().Stop();
    return Until([&] { return All([](TestHost& h) { return h.mover().stopped(); }); });
  }
  // Ends an attempt, so that another may begin.
  void StopAll() {
    ASSERT_TRUE(Stop());
    hosts_.clear();
    gpus_.clear();
    fabric_ = MemoryFabric();  // the next attempt has the tokens of this one
  }

  TestCase case_;
  std::chrono::milliseconds window_timeout_{20000};  // of the link between GPUs
  MemoryFabric fabric_;
  std::vector<std::unique_ptr<GpuStreams>> gpus_;
  std::vector<std::unique_ptr<TestHost>> hosts_;
};

}  // namespace remesh::worker
