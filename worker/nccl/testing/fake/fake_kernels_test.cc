// SPDX-License-Identifier: Apache-2.0
//
// Whether windows of the planner end when NCCL cuts them into several kernels. Nothing is buffered
// here: a send ends only together with its receive, which is the least that NCCL does.
#include "worker/nccl/testing/fake/fake_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace remesh::worker::fake_nccl {
namespace {

constexpr int kOperationsMax = 256;  // sends, and receives, of a device in one window

using Random = std::mt19937_64;

int Uniform(Random& random, int lo, int hi) {
  return lo + static_cast<int>(random() % static_cast<uint64_t>(hi - lo + 1));
}

using Window = std::vector<std::vector<KernelOperation>>;  // by rank

// Runs the kernels of all ranks, each rank's one after another.
class Execution {
 public:
  Execution(const Window& window, const KernelLimits& limits) : ranks_(window.size()) {
    const int count = static_cast<int>(window.size());
    for (int r = 0; r < count; ++r) {
      ranks_[r].kernels = CutIntoKernels(r, count, window[r], limits);
      ranks_[r].operations.resize(window[r].size());
    }
    Pair(window);
  }

  // Whether all operations end.
  bool Ends() {
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) StartKernel(r, 0);
    while (!ready_.empty()) {
      const Place place = ready_.front();
      ready_.pop_front();
      Finish(place);
    }
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.kernel == rank.kernels.size(); });
  }

  size_t kernels() const {
    size_t most = 0;
    for (const Rank& rank : ranks_) most = std::max(most, rank.kernels.size());
    return most;
  }

 private:
  struct Place {
    int rank = 0, operation = 0;
  };
  struct Operation {
    Place other;                // the operation at the other end
    std::vector<int> channels;  // that have come to it
    int wanted = 0;             // channels of the running kernel that hold it; 0 before that kernel
    bool current() const { return wanted > 0 && static_cast<int>(channels.size()) == wanted; }
  };
  struct Channel {
    size_t batch = 0;
    int left = 0;  // of the batch
  };
  struct Rank {
    std::vector<KernelPlan> kernels;
    size_t kernel = 0;
    int channels_left = 0;
    std::vector<Channel> channels;
    std::vector<Operation> operations;
  };

  // The k-th send to a peer meets the k-th receive there.
  void Pair(const Window& window) {
    std::vector<std::tuple<int, int, Place>> ends[2];  // from, to
    for (int r = 0; r < static_cast<int>(window.size()); ++r) {
      for (int o = 0; o < static_cast<int>(window[r].size()); ++o) {
        const auto [send, peer] = window[r][o];
        ends[send].emplace_back(send ? r : peer, send ? peer : r, Place{r, o});
      }
    }
    ASSERT_EQ(ends[0].size(), ends[1].size());
    for (auto& list : ends) {
      std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
        return std::pair(std::get<0>(a), std::get<1>(a)) <
               std::pair(std::get<0>(b), std::get<1>(b));
      });
    }
    for (size_t i = 0; i < ends[0].size(); ++i) {
      const Place receive = std::get<2>(ends[0][i]), send = std::get<2>(ends[1][i]);
      At(receive).other = send;
      At(send).other = receive;
    }
  }

  Operation& At(Place place) { return ranks_[place.rank].operations[place.operation]; }

  void StartKernel(int r, size_t kernel) {
    Rank& rank = ranks_[r];
    rank.kernel = kernel;
    if (kernel == rank.kernels.size()) return;
    const KernelPlan& plan = rank.kernels[kernel];
    rank.channels.assign(plan.channels.size(), {});
    rank.channels_left = 0;
    for (const auto& batches : plan.channels) {
      rank.channels_left += batches.empty() ? 0 : 1;
      for (const auto& batch : batches) {
        for (const int o : batch) ++rank.operations[o].wanted;
      }
    }
    for (size_t c = 0; c < plan.channels.size(); ++c) {
      if (!plan.channels[c].empty()) StartBatch(r, static_cast<int>(c), 0);
    }
  }

  void StartBatch(int r, int c, size_t index) {
    Rank& rank = ranks_[r];
    const auto& batch = rank.kernels[rank.kernel].channels[c][index];
    rank.channels[c] = {index, static_cast<int>(batch.size())};
    for (const int o : batch) {
      Operation& operation = rank.operations[o];
      operation.channels.push_back(c);
      if (operation.current() && At(operation.other).current()) ready_.push_back({r, o});
    }
  }

  // Both ends are done.
  void Finish(Place place) {
    const Place other = At(place).other;
    for (const Place& end : {place, other}) {
      for (const int c : At(end).channels) LeaveBatch(end.rank, c);
    }
  }

  void LeaveBatch(int r, int c) {
    Rank& rank = ranks_[r];
    if (--rank.channels[c].left > 0) return;
    const size_t next = rank.channels[c].batch + 1;
    if (next < rank.kernels[rank.kernel].channels[c].size()) return StartBatch(r, c, next);
    if (--rank.channels_left == 0) StartKernel(r, rank.kernel + 1);
  }

  std::vector<Rank> ranks_;
  std::deque<Place> ready_;
};

// Pairs at random, of which no device has more than `most` sends or receives.
Window RandomWindow(Random& random, int ranks, int most) {
  Window window(ranks);
  std::vector<int> receives(ranks, 0);
  std::vector<int> peers(ranks);
  std::iota(peers.begin(), peers.end(), 0);
  for (int from = 0; from < ranks; ++from) {
    std::shuffle(peers.begin(), peers.end(), random);
    int sends = 0;
    for (const int to : peers) {
      if (to == from || sends == most || receives[to] == most) continue;
      window[from].push_back({.send = true, .peer = to});
      window[to].push_back({.send = false, .peer = from});
      ++sends;
      ++receives[to];
    }
  }
  for (auto& operations : window) std::shuffle(operations.begin(), operations.end(), random);
  return window;
}

// With one send and one receive of a pair in a window, rounds come in the same order on all ranks,
// wherever each of them begins a kernel.
TEST(FakeKernelsTest, WindowsOfThePlannerEnd) {
  Random random(31);
  int cut = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool full = i % 200 == 0;
    const int ranks = full ? Uniform(random, 258, 300) : Uniform(random, 2, 40);
    const int most = full ? kOperationsMax : Uniform(random, 1, ranks);
    KernelLimits limits{.channels_of_peer = 1 << Uniform(random, 0, 5)};
    if (!full) {  // so that a few ranks fill kernels, too
      limits.batches = Uniform(random, 1, 3) * limits.channels_of_peer;
      limits.rounds_of_batch = Uniform(random, 1, 8);
    }
    Execution execution(RandomWindow(random, ranks, most), limits);
    EXPECT_TRUE(execution.Ends()) << "window " << i << " of " << ranks << " ranks";
    cut += execution.kernels() > 1 ? 1 : 0;
  }
  EXPECT_GT(cut, 500) << "windows that took several kernels";
  RecordProperty("windows_of_several_kernels", cut);
}

TEST(FakeKernelsTest, AFullWindowIsOneKernelUpToFourChannelsOfAPeer) {
  Random random(7);
  const Window window = RandomWindow(random, kOperationsMax + 1, kOperationsMax);
  for (const auto& [channels, kernels] :
       std::vector<std::pair<int, size_t>>{{1, 1}, {2, 1}, {4, 1}, {8, 2}, {16, 3}, {32, 5}}) {
    Execution execution(window, {.channels_of_peer = channels});
    EXPECT_EQ(execution.kernels(), kernels) << channels << " channels of a peer";
    EXPECT_TRUE(execution.Ends()) << channels << " channels of a peer";
  }
}

// Several messages of one pair: rounds come again, and ranks that begin their kernels at different
// ones wait for each other in a circle (pytorch#174288).
TEST(FakeKernelsTest, SeveralMessagesOfAPairCanWaitInACircle) {
  Random random(3);
  int circles = 0;
  for (int i = 0; i < 200; ++i) {
    const int ranks = Uniform(random, 4, 12);
    Window window(ranks);
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        for (int left = from == to ? 0 : Uniform(random, 0, 4); left > 0; --left) {
          window[from].push_back({.send = true, .peer = to});
          window[to].push_back({.send = false, .peer = from});
        }
      }
    }
    Execution execution(window, {.batches = 4, .rounds_of_batch = 2, .channels = 2});
    circles += execution.Ends() ? 0 : 1;
  }
  EXPECT_GT(circles, 0);
  RecordProperty("circles", circles);
}

}  // namespace
}  // namespace remesh::worker::fake_nccl
