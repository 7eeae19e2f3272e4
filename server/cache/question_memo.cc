// SPDX-License-Identifier: Apache-2.0
#include "server/cache/question_memo.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <openssl/sha.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/convert/plan_proto.h"

namespace remesh::server {
namespace {

// Writes maps in the order of their keys, so that equal messages have equal bytes within this
// process.
void Append(const google::protobuf::MessageLite& message, std::string& bytes) {
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializePartialToCodedStream(&coded);
}

}  // namespace

QuestionDigest DigestOf(const v1::PlanSpec& spec, const planner::Topology* workers) {
  // Begins with the length, so that the end of a spec cannot be taken for workers.
  std::string bytes = absl::StrCat(spec.ByteSizeLong(), ":");
  Append(spec, bytes);
  if (spec.topology().hosts().empty() && workers != nullptr)
    Append(proto::ToProto(*workers), bytes);
  QuestionDigest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

std::optional<std::string> QuestionMemo::Find(const QuestionDigest& question) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = recent_.find(question); found != recent_.end()) return found->second;
  auto found = older_.extract(question);
  if (found.empty()) return std::nullopt;
  RememberLocked(question, found.mapped());
  return std::move(found.mapped());
}

void QuestionMemo::Remember(const QuestionDigest& question, std::string plan) {
  absl::MutexLock lock(&mutex_);
  RememberLocked(question, std::move(plan));
}

void QuestionMemo::RememberLocked(const QuestionDigest& question, std::string plan) {
  if (recent_.size() >= entries_ && !recent_.contains(question)) {
    older_ = std::exchange(recent_, {});
  }
  recent_[question] = std::move(plan);
}

}  // namespace remesh::server
