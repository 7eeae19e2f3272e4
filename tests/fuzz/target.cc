// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/target.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/sanitized.h"
#include "tests/fuzz/proto_mutator.h"

namespace remesh::fuzz {
namespace {

static_assert(REMESH_SANITIZED, "preset fuzz uses clang's ASan, which base/sanitized.h must know");

// Texts that are no UTF-8 are to be expected here.
const bool kQuiet = [] {
  google::protobuf::SetLogHandler(nullptr);
  return true;
}();

bool Parse(std::string_view text, google::protobuf::Message& message) {
  if (text.size() > kInputBytesMax) return false;
  google::protobuf::TextFormat::Parser parser;
  parser.SetRecursionLimit(64);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  return parser.Parse(&stream, &message);
}

}  // namespace

void CheckRefusal(const absl::Status& status) {
  REMESH_CHECK(!status.ok());
  REMESH_CHECK(!GetErrorInfo(status).reason.empty());
  REMESH_CHECK(!absl::IsInternal(status) && !absl::IsUnknown(status));
}

// Only what a peer's bytes can become: texts that are no UTF-8 end before any reader of ours.
bool ParseInput(const uint8_t* data, size_t size, google::protobuf::Message& message) {
  if (!kQuiet || !Parse({reinterpret_cast<const char*>(data), size}, message)) return false;
  const std::string bytes = message.SerializeAsString();
  return message.ParseFromString(bytes);
}

size_t MutateInput(uint8_t* data, size_t size, size_t size_max, unsigned seed,
                   google::protobuf::Message& message, google::protobuf::Message& donor,
                   std::string_view donor_text) {
  if (!ParseInput(data, size, message)) message.Clear();
  if (donor_text.empty() || !Parse(donor_text, donor)) donor.CopyFrom(message);
  ProtoMutator mutator(seed);
  std::string text;
  mutator.Mutate(message, donor);
  google::protobuf::TextFormat::PrintToString(message, &text);
  if (text.size() > size_max) return size;  // as it was
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

}  // namespace remesh::fuzz
