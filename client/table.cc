// SPDX-License-Identifier: Apache-2.0
#include "client/table.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/visible.h"

namespace remesh::client {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Number of characters of UTF-8: every byte but those that continue one.
size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<uint8_t>(byte) & 0xc0) != 0x80;
  }));
}

void Widen(const Rows& rows, std::vector<size_t>& widths) {
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
}

std::string TextOf(const Rows& rows, const std::vector<size_t>& widths, size_t columns) {
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    const size_t shown = std::min(columns, row.size());
    for (size_t i = 0; i + 1 < shown; ++i) {
      absl::StrAppend(&text, row[i], std::string(widths[i] - WidthOf(row[i]) + 2, ' '));
    }
    absl::StrAppend(&text, shown == 0 ? "" : row[shown - 1], "\n");
  }
  return text;
}

}  // namespace

Table::Table(std::vector<std::string> header, const std::vector<std::string>& wide)
    : narrow_columns_(wide.empty() ? std::numeric_limits<size_t>::max() : header.size()) {
  header.insert(header.end(), wide.begin(), wide.end());
  rows_.push_back(std::move(header));
}

void Table::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Visible(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::ToString(bool wide) const {
  std::vector<size_t> widths;
  Widen(rows_, widths);
  return TextOf(rows_, widths, wide ? std::numeric_limits<size_t>::max() : narrow_columns_);
}

std::string Table::TakeRows() {
  Widen(rows_, taken_widths_);
  return TextOf(std::exchange(rows_, {}), taken_widths_, narrow_columns_);
}

}  // namespace remesh::client
