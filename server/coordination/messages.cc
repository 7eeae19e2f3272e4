// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/messages.h"

namespace remesh::server::coordination {
namespace {

v1::Contribution::Mode ModeOf(Mode mode) {
  switch (mode) {
    case Mode::kBarrier:
      return v1::Contribution::BARRIER;
    case Mode::kAgree:
      return v1::Contribution::AGREE;
    case Mode::kBroadcast:
      return v1::Contribution::BROADCAST;
    case Mode::kGather:
      return v1::Contribution::GATHER;
  }
  return v1::Contribution::MODE_UNSPECIFIED;
}

}  // namespace

v1::WorldMember ListedMemberOf(const Process& process, int rank) {
  v1::WorldMember member;
  member.set_rank(rank);
  member.set_host(process.host);
  member.set_pid(process.pid);
  member.mutable_device_ids()->Assign(process.device_ids.begin(), process.device_ids.end());
  return member;
}

v1::WorldMember MemberOf(const Process& process, int rank) {
  v1::WorldMember member = ListedMemberOf(process, rank);
  member.set_data(process.data);
  return member;
}

v1::World::Waiting WaitingOf(const World::Waiting& round) {
  v1::World::Waiting waiting;
  waiting.set_sequence(static_cast<int64_t>(round.sequence));
  waiting.set_name(round.name);
  waiting.set_mode(ModeOf(round.mode));
  if (round.since != absl::InfinitePast()) *waiting.mutable_since() = TimestampOf(round.since);
  waiting.mutable_absent()->Assign(round.absent.begin(), round.absent.end());
  return waiting;
}

v1::WorldEvent PreemptEvent(const v1::WorldEvent::Preempt& preempt) {
  v1::WorldEvent event;
  *event.mutable_preempt() = preempt;
  return event;
}

v1::WorldEvent LostEvent(int rank, const std::string& host, const std::string& why) {
  v1::WorldEvent event;
  event.mutable_member_lost()->set_rank(rank);
  event.mutable_member_lost()->set_host(host);
  event.mutable_member_lost()->set_why(why);
  return event;
}

v1::WorldEvent OverEvent(const std::string& why, int next_size) {
  v1::WorldEvent event;
  event.mutable_over()->set_why(why);
  event.mutable_over()->set_next_size(next_size);
  return event;
}

v1::ExchangeResponse ResponseOf(const Outcome& outcome, const std::string& digest) {
  v1::ExchangeResponse response;
  for (const absl::Cord& payload : outcome.payloads) response.add_payloads(std::string(payload));
  response.set_digest(digest);
  return response;
}

google::protobuf::Timestamp TimestampOf(absl::Time time) {
  const int64_t nanos = absl::ToUnixNanos(time);
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(nanos / 1'000'000'000);
  timestamp.set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  return timestamp;
}

}  // namespace remesh::server::coordination
