// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/assignment_parts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {
namespace {

int64_t SizeOf(const v1::Assignment& part) { return part.arrays_size() + part.shards_size(); }

std::tuple<std::string, std::string, int64_t> KeyOf(const v1::Assignment& part) {
  return {part.state(), part.state_uid(), part.generation()};
}

}  // namespace

absl::Status AssignmentParts::Add(const v1::Assignment& part) {
  if (part.has_columns()) {
    return InvalidField("columns", absl::StrCat(part.columns().devices_size(), " shards"),
                        "must be in the last message of an assignment, not in a part");
  }
  if (waiting_ + SizeOf(part) > shards_max_) {
    const std::string max = absl::StrCat(shards_max_);
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        absl::StrCat("more than ", max, " shards were assigned to this host at once, the last of ",
                     part.state()),
        {"ASSIGNMENT_TOO_LARGE", {{"shards_max", max}, {"state", part.state()}}});
  }
  waiting_ += SizeOf(part);
  v1::Assignment& whole = parts_[KeyOf(part)];
  whole.mutable_arrays()->MergeFrom(part.arrays());
  whole.mutable_shards()->MergeFrom(part.shards());
  return absl::OkStatus();
}

v1::Assignment AssignmentParts::Complete(v1::Assignment last) {
  auto node = parts_.extract(KeyOf(last));
  if (node.empty()) return last;
  v1::Assignment& first = node.mapped();
  waiting_ -= SizeOf(first);
  first.mutable_arrays()->MergeFrom(last.arrays());
  first.mutable_shards()->MergeFrom(last.shards());
  first.mutable_arrays()->Swap(last.mutable_arrays());
  first.mutable_shards()->Swap(last.mutable_shards());
  return last;
}

void AssignmentParts::Clear() {
  parts_.clear();
  waiting_ = 0;
}

}  // namespace remesh::worker
