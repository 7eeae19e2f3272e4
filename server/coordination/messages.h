// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/time/time.h"
#include "remesh/v1/coordination.pb.h"
#include "server/coordination/outcome.h"
#include "server/coordination/process.h"
#include "server/coordination/world.h"

namespace remesh::server::coordination {

// This folder's values as messages of coordination.proto.

// Without its data, which is for members alone.
v1::WorldMember ListedMemberOf(const Process& process, int rank);
v1::WorldMember MemberOf(const Process& process, int rank);
v1::World::Waiting WaitingOf(const World::Waiting& round);
v1::WorldEvent PreemptEvent(const v1::WorldEvent::Preempt& preempt);
v1::WorldEvent LostEvent(int rank, const std::string& host, const std::string& why);
v1::WorldEvent OverEvent(const std::string& why, int next_size);
// Of an outcome that is OK.
v1::ExchangeResponse ResponseOf(const Outcome& outcome, const std::string& digest);
google::protobuf::Timestamp TimestampOf(absl::Time time);

}  // namespace remesh::server::coordination
