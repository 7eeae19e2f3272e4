// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/testing/world_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace remesh::server::coordination {
namespace {

// Until then; what is past is due, however long ago it was.
int64_t SecondsUntil(absl::Time time, absl::Time now) {
  return std::max<int64_t>(0, absl::ToInt64Seconds(time - now));
}

}  // namespace

// Reaches into a world.
class WorldTestPeer {
 public:
  static void AppendTo(std::string& text, const World& world, absl::Time now) {
    absl::StrAppend(&text, SecondsUntil(world.return_deadline_, now), ";");
    if (world.over_) coordination::AppendTo(text, *world.over_);
    for (const World::Seat& seat : world.members_) AppendTo(text, seat, now);
    for (const auto& [sequence, round] : world.rounds_) {
      absl::StrAppend(&text, "|", sequence);
      AppendTo(text, round, now);
    }
  }

  static void EndReturnEarly(World& world) { world.return_deadline_ = absl::InfiniteFuture(); }

 private:
  static void AppendTo(std::string& text, const World::Seat& seat, absl::Time now) {
    absl::StrAppend(&text, seat.member.nonce, ",", seat.session.has_value(), seat.left,
                    seat.contributed, ",", SecondsUntil(seat.lost_at, now), ";");
  }

  static void AppendTo(std::string& text, const World::Round& round, absl::Time now) {
    absl::StrAppend(&text, ",", SecondsUntil(round.deadline, now), ",", round.came, ",",
                    round.digest, ",");
    if (round.outcome) coordination::AppendTo(text, *round.outcome);
    for (const auto& [rank, each] : round.contributions) {
      absl::StrAppend(&text, ",", rank, "=", std::string(each.payload));
    }
    for (const auto& [rank, call] : round.calls) absl::StrAppend(&text, ",", rank, "?");
  }
};

void AppendTo(std::string& text, const Outcome& outcome) {
  absl::StrAppend(&text, static_cast<int>(outcome.ending), outcome.message, ":");
  for (const absl::Cord& payload : outcome.payloads) text.append(std::string(payload)).append(",");
}

void AppendTo(std::string& text, const World& world, absl::Time now) {
  WorldTestPeer::AppendTo(text, world, now);
}

void EndReturnEarly(World& world) { WorldTestPeer::EndReturnEarly(world); }

}  // namespace remesh::server::coordination
