// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/transfer_json.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "proto/text/text.h"

namespace remesh::proto {
namespace {

using Indices = google::protobuf::RepeatedField<int64_t>;

// Writes int64 as strings, as protobuf's JSON does.
void AppendIndices(const Indices& indices, std::string& text) {
  text += '[';
  for (int d = 0; d < indices.size(); ++d) {
    absl::StrAppend(&text, d == 0 ? "\"" : ",\"", indices.Get(d), "\"");
  }
  text += ']';
}

std::string Quoted(const std::string& name) {
  return nlohmann::json(name).dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

}  // namespace

JsonAroundTransfers CutAtTransfers(const google::protobuf::Message& message) {
  // Quotes within strings are escaped, so this text can only be the field itself.
  constexpr std::string_view kField = "\"transfers\": [";
  std::string json = ToJson(message, /*pretty=*/true);
  const size_t field = json.find(kField);
  REMESH_CHECK(field != std::string::npos && json[field + kField.size()] == ']');
  const size_t cut = field + kField.size();
  std::string after = json.substr(cut);
  json.resize(cut);
  return {std::move(json), std::move(after)};
}

void AppendTransfer(const v1::Transfer& transfer, bool is_first, std::string& text) {
  absl::StrAppend(&text, is_first ? "\n" : ",\n", "{\"window\":", transfer.window(),
                  ",\"array\":", Quoted(transfer.array()), ",\"box\":{\"lo\":");
  AppendIndices(transfer.box().lo(), text);
  text += ",\"hi\":";
  AppendIndices(transfer.box().hi(), text);
  absl::StrAppend(&text, "},\"fromDevice\":\"", transfer.from_device(), "\",\"toDevice\":\"",
                  transfer.to_device(), "\",\"bytes\":\"", transfer.bytes(),
                  transfer.relay() ? "\",\"relay\":true}" : "\",\"relay\":false}");
}

}  // namespace remesh::proto
