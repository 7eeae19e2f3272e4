// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace remesh::client {

// Columns of text for people: each as wide as its widest cell, two spaces apart, with numbers as
// given.
class Table {
 public:
  // Columns of `wide` follow the others; only ToString(/*wide=*/true) shows them.
  explicit Table(std::vector<std::string> header, const std::vector<std::string>& wide = {});

  // `cells` has one for each column, wide ones included. What a terminal would obey is escaped.
  void AddRow(std::vector<std::string> cells);
  size_t rows() const { return rows_.size(); }

  std::string ToString(bool wide = false) const;
  // Returns the text of the rows so far and removes them. Columns do not get narrower again.
  std::string TakeRows();

 private:
  size_t narrow_columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> taken_widths_;
};

}  // namespace remesh::client
