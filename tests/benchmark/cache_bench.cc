// SPDX-License-Identifier: Apache-2.0
// Asks a running server for plans and says how long it takes, as JSON on stdout. scripts/bench
// cache starts the servers and runs this; --help lists what can be measured.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "base/check.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "tests/benchmark/models.h"
#include "tests/benchmark/planner_cases.h"

namespace remesh::server {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
using Stub = v1::PlanService::Stub;

struct Options {
  std::string server;
  int rounds = 5;
  int calls = 1000;  // a round
  int clients = 64;
  double seconds = 5;  // a round under load
  int count = 10'000;  // of distinct plans
};

// A connection of its own.
std::unique_ptr<Stub> Connect(const Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return v1::PlanService::NewStub(
      grpc::CreateCustomChannel(options.server, grpc::InsecureChannelCredentials(), arguments));
}

void CheckOk(const grpc::Status& status) {
  if (status.ok()) return;
  std::cerr << "cache-bench: " << status.error_message() << "\n";
  std::exit(1);
}

// Llama-3.1-405B, all 1,137 arrays, from 1,024 to 512 of the same GPUs.
v1::CreatePlanRequest BigRequest() {
  v1::CreatePlanRequest request;
  *request.mutable_spec() =
      testing::ModelSpec(testing::Llama405b(), {.tp = 8, .pp = 16, .dp = 8},
                         {.tp = 8, .pp = 2, .dp = 32}, testing::Targets::kSameDevices);
  return request;
}

// Llama-3.1-8B on 16 GPUs with a vocabulary that only this number has: equal to no other.
v1::CreatePlanRequest DistinctRequest(int number) {
  testing::Model model = testing::Llama8b();
  model.before[0].shape[0] += 16 * (number + 1);
  v1::CreatePlanRequest request;
  *request.mutable_spec() = testing::ModelSpec(
      model, {.tp = 8, .pp = 2}, {.tp = 4, .pp = 2, .dp = 2}, testing::Targets::kSameDevices);
  return request;
}

v1::CreatePlanResponse Create(Stub& stub, const v1::CreatePlanRequest& request) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  v1::CreatePlanResponse response;
  CheckOk(stub.CreatePlan(&context, request, &response));
  return response;
}

void Get(Stub& stub, const v1::GetPlanRequest& request) {
  grpc::ClientContext context;
  v1::Plan plan;
  CheckOk(stub.GetPlan(&context, request, &plan));
}

v1::CacheStats Stats(Stub& stub) {
  grpc::ClientContext context;
  v1::CacheStats stats;
  CheckOk(stub.GetCacheStats(&context, {}, &stats));
  return stats;
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// `seconds` is sorted.
double Quantile(const std::vector<double>& seconds, double quantile) {
  REMESH_CHECK(!seconds.empty());
  const double at = quantile * static_cast<double>(seconds.size() - 1);
  return seconds[static_cast<size_t>(at + 0.5)];
}

json Summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {{"calls", seconds.size()},
          {"p50_seconds", Quantile(seconds, 0.5)},
          {"p99_seconds", Quantile(seconds, 0.99)},
          {"max_seconds", seconds.back()}};
}

using Ask = std::function<void(Stub&)>;

// What to ask again and again, once the plan is there.
Ask ByName(const Options& options) {
  v1::GetPlanRequest request;
  request.set_name(Create(*Connect(options), BigRequest()).plan().name());
  return [request](Stub& stub) { Get(stub, request); };
}

Ask ByContent(const Options& options) {
  auto request = std::make_shared<const v1::CreatePlanRequest>(BigRequest());
  Create(*Connect(options), *request);
  return [request](Stub& stub) {
    REMESH_CHECK(Create(stub, *request).planning().cache() == v1::Planning::HIT);
  };
}

// The same question, each time with a device list that nothing refers to: words that no caller has
// asked in before, so the server has to understand them.
Ask Reworded(const Options& options) {
  auto request = std::make_shared<v1::CreatePlanRequest>(BigRequest());
  Create(*Connect(options), *request);
  auto calls = std::make_shared<int>(0);
  return [request, calls](Stub& stub) {
    auto& lists = *request->mutable_spec()->mutable_device_lists();
    lists.erase("call " + std::to_string(*calls));
    lists["call " + std::to_string(++*calls)].mutable_range()->set_count(1);
    REMESH_CHECK(Create(stub, *request).planning().cache() == v1::Planning::HIT);
  };
}

// One call after another.
json Latency(const Options& options, const Ask& ask) {
  const std::unique_ptr<Stub> stub = Connect(options);
  for (int i = 0; i < options.calls / 10 + 1; ++i) ask(*stub);
  json rounds = json::array();
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<double> seconds;
    for (int i = 0; i < options.calls; ++i) {
      const auto start = Clock::now();
      ask(*stub);
      seconds.push_back(SecondsSince(start));
    }
    rounds.push_back(Summarize(std::move(seconds)));
  }
  return rounds;
}

// Many clients, each with a connection and one call at a time.
json Load(const Options& options, const Ask& ask) {
  std::vector<std::unique_ptr<Stub>> stubs;
  for (int i = 0; i < options.clients; ++i) {
    stubs.push_back(Connect(options));
    ask(*stubs.back());
  }
  json rounds = json::array();
  for (int round = 0; round < options.rounds; ++round) {
    const auto start = Clock::now();
    std::vector<std::vector<double>> seconds(stubs.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < stubs.size(); ++i) {
      threads.emplace_back([&, i] {
        while (SecondsSince(start) < options.seconds) {
          const auto asked = Clock::now();
          ask(*stubs[i]);
          seconds[i].push_back(SecondsSince(asked));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const double took = SecondsSince(start);
    std::vector<double> all;
    for (const auto& one : seconds) all.insert(all.end(), one.begin(), one.end());
    json summary = Summarize(all);
    summary["calls_per_second"] = static_cast<double>(all.size()) / took;
    rounds.push_back(std::move(summary));
  }
  return rounds;
}

// The first answer after the server has started.
json First(const Options& options) {
  const std::unique_ptr<Stub> stub = Connect(options);
  Stats(*stub);  // connects
  const v1::CreatePlanRequest request = BigRequest();
  const auto start = Clock::now();
  const v1::CreatePlanResponse response = Create(*stub, request);
  return {{"seconds", SecondsSince(start)},
          {"cache", v1::Planning::Cache_Name(response.planning().cache())},
          {"request_bytes", request.ByteSizeLong()}};
}

// Plans that are all different, from a few clients at once.
json Distinct(const Options& options) {
  constexpr int kClients = 4;
  std::atomic<int> next = 0;
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      const std::unique_ptr<Stub> stub = Connect(options);
      for (int number = next++; number < options.count; number = next++) {
        Create(*stub, DistinctRequest(number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {{"seconds", SecondsSince(start)}, {"request_bytes", DistinctRequest(0).ByteSizeLong()}};
}

// Equal questions that were not asked before, all at once.
json Cold(const Options& options) {
  struct Call {
    grpc::ClientContext context;
    v1::CreatePlanResponse response;
    grpc::Status status;
  };
  const std::unique_ptr<Stub> stub = Connect(options);
  Stats(*stub);  // connects
  const v1::CreatePlanRequest request = BigRequest();
  std::vector<Call> calls(static_cast<size_t>(options.count));
  absl::BlockingCounter left(options.count);
  const auto start = Clock::now();
  for (Call& call : calls) {
    stub->async()->CreatePlan(&call.context, &request, &call.response, [&](grpc::Status status) {
      call.status = std::move(status);
      left.DecrementCount();
    });
  }
  left.Wait();
  const double seconds = SecondsSince(start);
  int planned = 0;
  for (const Call& call : calls) {
    CheckOk(call.status);
    planned += call.response.planning().cache() == v1::Planning::MISS;
  }
  return {{"seconds", seconds}, {"calls", options.count}, {"planned", planned}};
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Asks a running remesh-server for plans and says how long it takes.");
  app.require_subcommand(1);
  app.add_option("--server", options.server, "HOST:PORT")->required();
  app.add_option("--rounds", options.rounds, "How often to measure");
  app.add_option("--calls", options.calls, "Calls a round, one after another");
  app.add_option("--clients", options.clients, "Clients at once");
  app.add_option("--seconds", options.seconds, "Seconds a round of clients at once");
  app.add_option("--count", options.count, "Distinct plans, or equal questions at once");
  app.fallthrough();
  json result;
  const auto add = [&](const char* name, const char* help, std::function<json()> measure) {
    app.add_subcommand(name, help)->callback([&result, measure] { result = measure(); });
  };
  add("name-latency", "A plan by its name.", [&] { return Latency(options, ByName(options)); });
  add("content-latency", "A plan by its question, 405B 1024 -> 512.",
      [&] { return Latency(options, ByContent(options)); });
  add("reworded-latency", "The same, each time in words never used before.",
      [&] { return Latency(options, Reworded(options)); });
  add("name-load", "By name, many clients.", [&] { return Load(options, ByName(options)); });
  add("content-load", "By question, many clients.",
      [&] { return Load(options, ByContent(options)); });
  add("first", "One question.", [&] { return First(options); });
  add("distinct", "Many plans, none asked for twice.", [&] { return Distinct(options); });
  add("cold", "Equal questions at once, for a plan that is not cached.",
      [&] { return Cold(options); });
  CLI11_PARSE(app, argc, argv);
  std::cout << result.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace remesh::server

int main(int argc, char** argv) { return remesh::server::Main(argc, argv); }
