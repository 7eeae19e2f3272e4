// SPDX-License-Identifier: Apache-2.0
// Many fake workers in one process: fleet-workers --server ADDRESS --hosts N. They share a few
// connections. scripts/bench fleet starts it and asks it by lines on stdin; each is answered by one
// line of JSON on stdout:
//   attach        opens the streams; answers when every worker is attached
//   wait          answers when every worker is attached again
//   counts        what all workers have seen since counts was last asked
//   programs      from now on each worker fetches its program before it answers Prepare
// It ends with its stdin.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "tests/benchmark/fleet/fleet_worker.h"

namespace remesh::benchmark {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

struct Options {
  std::string server;
  int hosts = 64;
  int devices = 8;
  int connections = 200;
};

std::shared_ptr<grpc::Channel> Connect(const Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(options.server, grpc::InsecureChannelCredentials(), arguments);
}

class Fleet {
 public:
  explicit Fleet(const Options& options) : options_(options) {
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    for (int i = 0; i < std::min(options.connections, options.hosts); ++i) {
      channels.push_back(Connect(options));
    }
    for (int i = 0; i < options.hosts; ++i) {
      workers_.push_back(
          std::make_unique<FleetWorker>(FleetHost{.name = absl::StrFormat("host-%05d", i),
                                                  .first_device = int64_t{i} * options.devices,
                                                  .devices = options.devices,
                                                  .fetches_programs = &fetches_programs_,
                                                  .counts = &counts_,
                                                  .attached = &attached_,
                                                  .heartbeat_nanos = &heartbeat_nanos_},
                                        channels[i % channels.size()]));
    }
  }

  ~Fleet() {
    stops_ = true;
    if (heart_.joinable()) heart_.join();
    for (auto& worker : workers_) worker->Stop();
    for (auto& worker : workers_) {
      while (!worker->stopped()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  json Attach() {
    const Clock::time_point start = Clock::now();
    for (auto& worker : workers_) worker->Attach();
    heart_ = std::thread([this] { BeatAll(); });
    return AwaitAttached(start);
  }

  json AwaitAttached(Clock::time_point start = Clock::now()) {
    while (attached_ < options_.hosts) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::chrono::duration<double> seconds = Clock::now() - start;
    return {{"attached", attached_.load()}, {"seconds", seconds.count()}};
  }

  json FetchPrograms() {
    fetches_programs_ = true;
    return json::object();
  }

  json TakeCounts() {
    return {{"attached", attached_.load()},
            {"prepares", counts_.prepares.exchange(0)},
            {"prepare_bytes", counts_.prepare_bytes.exchange(0)},
            {"largest_prepare", counts_.largest_prepare.exchange(0)},
            {"commits", counts_.commits.exchange(0)},
            {"aborts", counts_.aborts.exchange(0)},
            {"programs", counts_.programs.exchange(0)},
            {"program_bytes", counts_.program_bytes.exchange(0)},
            {"lost_streams", counts_.lost_streams.exchange(0)},
            {"heartbeats", counts_.heartbeats.exchange(0)}};
  }

 private:
  // Goes round all workers some times in each interval, as the server asked for last, at an even
  // pace, so that each beats, or attaches again, about an interval after its last message.
  void BeatAll() {
    constexpr int kRounds = 8;
    while (!stops_) {
      const Clock::time_point start = Clock::now();
      const std::chrono::nanoseconds interval(heartbeat_nanos_);
      const std::chrono::nanoseconds round = interval / kRounds;
      for (size_t i = 0; i < workers_.size() && !stops_; ++i) {
        workers_[i]->Beat(interval - round / 2);
        if (i % 64 != 63) continue;
        std::this_thread::sleep_until(start + round * (i + 1) / workers_.size());
      }
      std::this_thread::sleep_until(start + round);
    }
  }

  const Options options_;
  FleetCounts counts_;
  std::atomic<int64_t> attached_{0};
  std::atomic<int64_t> heartbeat_nanos_{1'000'000'000};
  std::atomic<bool> fetches_programs_{false};
  std::atomic<bool> stops_{false};
  std::vector<std::unique_ptr<FleetWorker>> workers_;
  std::thread heart_;
};

json Execute(const std::string& line, Fleet& fleet) {
  if (line == "attach") return fleet.Attach();
  if (line == "wait") return fleet.AwaitAttached();
  if (line == "counts") return fleet.TakeCounts();
  if (line == "programs") return fleet.FetchPrograms();
  return {{"error", "attach, wait, counts or programs"}};
}

int Main(int argc, char** argv) {
  // As real workers do: see WorkerMain().
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  Options options;
  CLI::App app("Many fake workers in one process, asked by lines on stdin.");
  app.add_option("--server", options.server, "host:port")->required();
  app.add_option("--hosts", options.hosts)->check(CLI::PositiveNumber);
  app.add_option("--devices", options.devices, "of each host")->check(CLI::PositiveNumber);
  app.add_option("--connections", options.connections)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  Fleet fleet(options);
  std::string line;
  while (std::getline(std::cin, line)) std::cout << Execute(line, fleet) << std::endl;
  return 0;
}

}  // namespace
}  // namespace remesh::benchmark

int main(int argc, char** argv) { return remesh::benchmark::Main(argc, argv); }
