// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/state_labels.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

constexpr size_t kLabelsMax = 64;
constexpr size_t kLabelBytesMax = 1024;
constexpr size_t kRequestIdBytesMax = 256;

std::string FieldOf(std::string_view path, std::string_view field) {
  return absl::StrCat(std::string(path), std::string(field));
}

}  // namespace

absl::Status CheckStep(std::string_view path, int64_t step) {
  if (step >= 0) return absl::OkStatus();
  return InvalidField(FieldOf(path, "step"), absl::StrCat(step), "must be >= 0");
}

absl::Status CheckLabels(std::string_view path, const Labels& labels) {
  const std::string field = FieldOf(path, "labels");
  if (labels.size() > kLabelsMax) {
    return InvalidField(field, absl::StrCat(labels.size(), " labels"), "must be at most 64 labels");
  }
  for (const auto& [key, value] : labels) {
    if (key.empty() || key.size() > kLabelBytesMax || value.size() > kLabelBytesMax) {
      return InvalidField(absl::StrCat(field, "[", key.substr(0, 64), "]"), value,
                          "must have a key of 1 to 1024 bytes and a value of at most 1024");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRequestId(const std::string& request_id) {
  if (request_id.size() <= kRequestIdBytesMax) return absl::OkStatus();
  return InvalidField("request_id", request_id, "must have at most 256 bytes");
}

}  // namespace remesh::server
