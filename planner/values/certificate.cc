// SPDX-License-Identifier: Apache-2.0
#include "planner/values/certificate.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace remesh::planner {
namespace {

const char* WhatMembersDo(Certificate::Kind kind) {
  switch (kind) {
    case Certificate::Kind::kNone:
      break;
    case Certificate::Kind::kIngress:
      return "must receive";
    case Certificate::Kind::kEgress:
      return "alone hold and must send";
    case Certificate::Kind::kRelay:
      return "must send, copies for each other included,";
    case Certificate::Kind::kLocalIngress:
      return "must receive from the host's others";
    case Certificate::Kind::kLocalEgress:
      return "alone of the host hold and must send inside it";
  }
  return "";
}

}  // namespace

std::string Certificate::DebugString() const {
  if (kind == Kind::kNone) return "nothing has to cross";
  std::vector<std::string> members;
  for (int32_t host : hosts) members.push_back(absl::StrCat("host ", host));
  for (int32_t domain : domains) members.push_back(absl::StrCat("domain ", domain));
  for (int32_t device : devices) members.push_back(absl::StrCat("device ", device));
  constexpr size_t kShownMax = 8;
  const size_t more = members.size() > kShownMax ? members.size() - kShownMax : 0;
  members.resize(members.size() - more);
  const std::string who = absl::StrCat(absl::StrJoin(members, ", "),
                                       more > 0 ? absl::StrCat(" and ", more, " more") : "");
  return absl::StrCat(who, " ", WhatMembersDo(kind), " ", bits / 8 + (bits % 8 != 0), " bytes at ",
                      capacity, " bytes per second");
}

}  // namespace remesh::planner
