// SPDX-License-Identifier: Apache-2.0
// A world of as many members as there may be: nothing that it takes grows as their square.
#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/coordination/requests.h"
#include "server/coordination/registry.h"

namespace remesh::server::coordination {
namespace {

constexpr char kLarge[] = "jobs/large/worlds/main";
const absl::Time kAtOnce = absl::UnixEpoch() + absl::Hours(1);

class LargeWorldTest : public testing::Test {
 protected:
  void Form() {
    Actions actions;
    for (int rank = 0; rank < kWorldSizeMax; ++rank) {
      Candidate candidate;
      candidate.process.nonce = NonceOf(rank);
      candidate.process.host = absl::StrCat("host-", rank / 8);
      candidate.process.local_index = rank % 8;
      candidate.min_size = candidate.max_size = kWorldSizeMax;
      candidate.rank = rank;
      candidate.session = 1 + rank;
      candidate.deadline = kAtOnce + absl::Seconds(300);
      ASSERT_TRUE(registry_.Join(kLarge, "", std::move(candidate), kAtOnce, actions).ok());
    }
    registry_.OnSaved(kLarge, absl::OkStatus(), kAtOnce, actions);
    std::set<const FormedWorld*> told;
    for (const Action& action : actions) {
      const auto* formed = std::get_if<SendFormed>(&action);
      if (formed == nullptr) continue;
      told.insert(formed->world.get());
      EXPECT_EQ(formed->world->size, kWorldSizeMax);
      EXPECT_EQ(formed->world->members.size(), 1u) << "all members, to each of them";
    }
    EXPECT_EQ(told.size(), 1u);
  }

  // One round of all. Returns the outcomes that they were answered with, each once.
  std::set<SharedOutcome> Round(Mode mode, int root, size_t bytes) {
    Actions actions;
    for (int rank = 0; rank < kWorldSizeMax; ++rank) {
      const bool sends = mode == Mode::kGather || mode == Mode::kAgree || rank == root;
      const Contribution contribution = {
          .name = "save",
          .mode = mode,
          .root = root,
          .payload = absl::Cord(std::string(sends ? bytes : 0, 'x'))};
      registry_.Exchange(1 + rank,
                         {.scope = kLarge, .epoch = 1, .rank = rank, .nonce = NonceOf(rank)},
                         sequence_, contribution, kAtOnce + absl::Seconds(300), kAtOnce, actions);
    }
    ++sequence_;
    std::set<SharedOutcome> outcomes;
    size_t answers = 0;
    for (const Action& action : actions) {
      const auto* answer = std::get_if<Answer>(&action);
      if (answer == nullptr) continue;
      ++answers;
      outcomes.insert(std::get<SharedOutcome>(answer->with));
    }
    EXPECT_EQ(answers, static_cast<size_t>(kWorldSizeMax));
    return outcomes;
  }

  static std::string NonceOf(int rank) { return absl::StrCat("nonce ", rank); }

  Registry registry_{0, {}, kAtOnce};
  uint64_t sequence_ = 0;
};

// What Job.save() exchanges: each outcome is gathered by rank 0, which tells all what it decided.
TEST_F(LargeWorldTest, SavesWithOutcomesThatAllShare) {
  const absl::Time begin = absl::Now();
  Form();
  const absl::Time formed = absl::Now();
  for (int exchange = 0; exchange < 3; ++exchange) {
    const std::set<SharedOutcome> gathered = Round(Mode::kGather, 0, 256);
    EXPECT_EQ(gathered.size(), 2u) << "with payloads for rank 0, and without";
    EXPECT_EQ((*gathered.begin())->ending, Ending::kOk) << (*gathered.begin())->message;
    const std::set<SharedOutcome> told = Round(Mode::kBroadcast, 0, 1024);
    EXPECT_EQ(told.size(), 1u);
    EXPECT_EQ((*told.begin())->ending, Ending::kOk) << (*told.begin())->message;
  }
  std::printf("%d members: forms in %s, saves in %s, holds %zu bytes of payloads\n", kWorldSizeMax,
              absl::FormatDuration(formed - begin).c_str(),
              absl::FormatDuration(absl::Now() - formed).c_str(), registry_.held());
}

TEST_F(LargeWorldTest, AgreesAndSaysThatAGatherToAllIsTooLarge) {
  Form();
  const std::set<SharedOutcome> agreed =
      Round(Mode::kAgree, 0, (1 + kLeafDigestsMax) * kDigestBytes);
  ASSERT_EQ(agreed.size(), 1u);
  EXPECT_EQ((*agreed.begin())->ending, Ending::kOk);
  const std::set<SharedOutcome> gathered = Round(Mode::kGather, -1, 1);
  ASSERT_EQ(gathered.size(), 1u);
  EXPECT_EQ((*gathered.begin())->ending, Ending::kTooLarge);
}

}  // namespace
}  // namespace remesh::server::coordination
