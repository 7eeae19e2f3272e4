// SPDX-License-Identifier: Apache-2.0
#include "client/input.h"

#include <iostream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/files/mapped_file.h"
#include "proto/spec/text.h"

namespace remesh {
namespace {

constexpr int64_t kBytesMax = int64_t{64} << 20;

absl::StatusOr<std::string> ReadStdin() {
  std::string text(static_cast<size_t>(kBytesMax) + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));
  if (static_cast<int64_t>(text.size()) > kBytesMax) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("stdin is longer than ", kBytesMax, " bytes"),
                     {.reason = "FILE_TOO_LARGE",
                      .metadata = {{"path", "-"}, {"bytes_max", absl::StrCat(kBytesMax)}}});
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadText(const std::string& path) {
  return path == "-" ? ReadStdin() : ReadFile(path, kBytesMax);
}

absl::Status ReadMessage(const std::string& path, google::protobuf::Message& message) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return ParseText(text, message);
}

}  // namespace remesh
