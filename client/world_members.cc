// SPDX-License-Identifier: Apache-2.0
#include "client/world_members.h"

#include "absl/strings/str_cat.h"
#include "client/output.h"

namespace remesh::client {
namespace {

constexpr int kNamedMax = 16;
constexpr char kAgreementName[] = "AgreeStep";  // as the server lists it

std::string NameOf(int rank, const v1::World& world) {
  for (const v1::WorldMember& member : world.members()) {
    if (member.rank() == rank) return absl::StrCat(rank, "@", member.host());
  }
  return absl::StrCat(rank);
}

}  // namespace

std::string MemberNames(const google::protobuf::RepeatedField<int32_t>& ranks,
                        const v1::World& world) {
  std::string text;
  for (int i = 0; i < ranks.size() && i < kNamedMax; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", NameOf(ranks[i], world));
  }
  if (ranks.size() > kNamedMax) absl::StrAppend(&text, " and ", ranks.size() - kNamedMax, " more");
  return OrDash(text);
}

const v1::World::Waiting* FindAgreement(const v1::World& world) {
  for (const v1::World::Waiting& each : world.waiting()) {
    if (world.has_preempt() && each.name() == kAgreementName) return &each;
  }
  return nullptr;
}

}  // namespace remesh::client
