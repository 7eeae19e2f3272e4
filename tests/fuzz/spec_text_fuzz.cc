// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include "proto/text/text.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/reshard.pb.h"
#include "tests/fuzz/target.h"

namespace remesh::fuzz {
namespace {

bool Same(const google::protobuf::Message& a, const google::protobuf::Message& b) {
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);
  google::protobuf::util::MessageDifferencer differencer;
  // JSON leaves out -0, which is not the default value.
  differencer.set_message_field_comparison(google::protobuf::util::MessageDifferencer::EQUIVALENT);
  differencer.set_field_comparator(&comparator);
  return differencer.Compare(a, b);
}

// What was read prints and reads back equal.
template <typename Message>
void Read(std::string_view text) {
  Message message, again;
  const absl::Status status = proto::ParseText(text, message);
  if (!status.ok()) return CheckRefusal(status);
  REMESH_CHECK(proto::ParseText(proto::ToJson(message, false), again).ok());
  REMESH_CHECK(Same(again, message));
}

}  // namespace
}  // namespace remesh::fuzz

// JSON and YAML.
REMESH_FUZZ_TEXT(text) {
  using namespace remesh;
  fuzz::Read<v1::PlanSpec>(text);
  fuzz::Read<v1::StartExecutionRequest>(text);
}
