// SPDX-License-Identifier: Apache-2.0
#include "client/transfer_output.h"

#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/convert/transfer_json.h"

namespace remesh::client {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kRowsMeasured = 1000;

// Collects text for stdout into few large writes.
class ChunkedOutput {
 public:
  std::string& text() { return text_; }
  void Flush() {
    std::cout.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }
  void FlushIfLong() {
    if (text_.size() >= kChunkBytes) Flush();
  }

 private:
  std::string text_;
};

std::string BoxText(const v1::Box& box) {
  std::string text;
  for (int d = 0; d < box.lo_size(); ++d)
    absl::StrAppend(&text, d > 0 ? "," : "", box.lo(d), ":", box.hi(d));
  return absl::StrCat("[", text, "]");
}

std::vector<std::string> RowOf(const v1::Transfer& t) {
  return {absl::StrCat(t.window()), absl::StrCat(t.from_device()), absl::StrCat(t.to_device()),
          absl::StrCat(t.bytes()),  t.relay() ? "yes" : "no",      t.array(),
          BoxText(t.box())};
}

}  // namespace

absl::Status CheckFormatOfTransfers(OutputFormat format) {
  if (IsTable(format) || format == OutputFormat::kJson) return absl::OkStatus();
  return InvalidField("--output", format == OutputFormat::kYaml ? "yaml" : "name",
                      "must be table or json with every transfer");
}

absl::Status PrintJsonWithTransfers(const google::protobuf::Message& message,
                                    ForEachTransfer for_each) {
  const proto::JsonAroundTransfers json = proto::CutAtTransfers(message);
  ChunkedOutput out;
  out.text() = json.before;
  out.Flush();
  std::cout.flush();  // lets a reader begin
  bool is_first = true;
  RETURN_IF_ERROR(for_each([&](const v1::Transfer& transfer) {
    if (!std::cout) return;
    proto::AppendTransfer(transfer, is_first, out.text());
    is_first = false;
    out.FlushIfLong();
  }));
  out.text() += json.after;
  out.Flush();
  return CheckStdout();
}

absl::Status PrintTransferTable(ForEachTransfer for_each) {
  ChunkedOutput out;
  Table table({"WINDOW", "FROM", "TO", "BYTES", "RELAY", "ARRAY", "BOX"});
  RETURN_IF_ERROR(for_each([&](const v1::Transfer& transfer) {
    if (!std::cout) return;
    table.AddRow(RowOf(transfer));
    if (table.rows() < kRowsMeasured) return;
    out.text() += table.TakeRows();
    out.FlushIfLong();
  }));
  out.text() += table.TakeRows();
  out.Flush();
  return CheckStdout();
}

}  // namespace remesh::client
