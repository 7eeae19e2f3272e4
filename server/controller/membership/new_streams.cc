// SPDX-License-Identifier: Apache-2.0
#include "server/controller/membership/new_streams.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {
namespace {

absl::Status NotRegistered() {
  const std::string seconds =
      absl::StrCat(NewStreams::kFirstMessageWithin / std::chrono::seconds(1));
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   absl::StrCat("no register came on the stream within ", seconds, " s"),
                   {.reason = "NOT_REGISTERED", .metadata = {{"seconds", seconds}}});
}

}  // namespace

void NewStreams::ExtendDeadlines(Timestamp pause) {
  for (auto& [stream, opened] : opened_) opened += pause;
}

void NewStreams::OnTick(Timestamp now, Outbox& out) {
  while (!opened_.empty() && now - opened_.begin()->second > kFirstMessageWithin) {
    out.Close(opened_.begin()->first, NotRegistered());
    opened_.erase(opened_.begin());
  }
}

}  // namespace remesh::server
