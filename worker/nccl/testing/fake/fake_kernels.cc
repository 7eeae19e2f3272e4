// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/testing/fake/fake_kernels.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace remesh::worker::fake_nccl {
namespace {

// What is left of a round, the first to go last.
struct Round {
  std::vector<int> sends, receives;

  bool empty() const { return sends.empty() && receives.empty(); }
};

// A send to rank + r and a receive from rank - r are of round r.
std::map<int, Round> RoundsOf(int rank, int ranks, const std::vector<KernelOperation>& operations) {
  std::map<int, Round> rounds;
  for (size_t i = operations.size(); i-- > 0;) {
    const KernelOperation& operation = operations[i];
    const int ahead = operation.send ? operation.peer - rank : rank - operation.peer;
    Round& round = rounds[(ahead + ranks) % ranks];
    (operation.send ? round.sends : round.receives).push_back(static_cast<int>(i));
  }
  return rounds;
}

class Kernel {
 public:
  explicit Kernel(const KernelLimits& limits)
      : limits_(limits), last_rounds_(static_cast<size_t>(limits.channels)) {
    plan_.channels.resize(last_rounds_.size());
  }

  // Takes the next send and receive of the round; false if there is no room.
  bool Take(int number, Round& round) {
    int more = 0;
    for (int part = 0; part < Parts(); ++part) more += NeedsBatch(ChannelOf(number, part), number);
    if (batches_ + more > limits_.batches) return false;
    batches_ += more;
    for (int part = 0; part < Parts(); ++part) Add(ChannelOf(number, part), number, round);
    if (!round.sends.empty()) round.sends.pop_back();
    if (!round.receives.empty()) round.receives.pop_back();
    return true;
  }

  KernelPlan plan() && { return std::move(plan_); }

 private:
  int Parts() const { return std::min(limits_.channels_of_peer, limits_.channels); }
  size_t ChannelOf(int round, int part) const {
    return static_cast<size_t>((round + part) % limits_.channels);
  }

  bool NeedsBatch(size_t channel, int number) const {
    const std::vector<int>& last = last_rounds_[channel];
    if (last.empty() || static_cast<int>(last.size()) == limits_.rounds_of_batch) return true;
    return std::find(last.begin(), last.end(), number) != last.end();
  }

  void Add(size_t channel, int number, const Round& round) {
    if (NeedsBatch(channel, number)) {
      plan_.channels[channel].emplace_back();
      last_rounds_[channel].clear();
    }
    last_rounds_[channel].push_back(number);
    std::vector<int>& batch = plan_.channels[channel].back();
    if (!round.sends.empty()) batch.push_back(round.sends.back());
    if (!round.receives.empty()) batch.push_back(round.receives.back());
  }

  const KernelLimits& limits_;
  KernelPlan plan_;
  std::vector<std::vector<int>> last_rounds_;  // of each channel's last batch
  int batches_ = 0;
};

// One kernel, of as much as there is room for.
KernelPlan NextKernel(std::map<int, Round>& rounds, const KernelLimits& limits) {
  Kernel kernel(limits);
  while (!rounds.empty()) {
    for (auto round = rounds.begin(); round != rounds.end();) {
      if (!kernel.Take(round->first, round->second)) return std::move(kernel).plan();
      round = round->second.empty() ? rounds.erase(round) : std::next(round);
    }
  }
  return std::move(kernel).plan();
}

}  // namespace

std::vector<KernelPlan> CutIntoKernels(int rank, int ranks,
                                       const std::vector<KernelOperation>& operations,
                                       const KernelLimits& limits) {
  std::map<int, Round> rounds = RoundsOf(rank, ranks, operations);
  std::vector<KernelPlan> kernels;
  while (!rounds.empty()) kernels.push_back(NextKernel(rounds, limits));
  return kernels;
}

}  // namespace remesh::worker::fake_nccl
