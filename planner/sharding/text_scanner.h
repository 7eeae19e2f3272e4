// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remesh::planner {

// Reads a text from left to right. Skips white space and comments (/* */ and // to the end of the
// line). Errors are INVALID_ARGUMENT: field `field`, the text as value, and "column N: what was
// expected, what was found" (columns count from 1).
class TextScanner {
 public:
  // Both views must outlive the scanner.
  TextScanner(std::string_view field, std::string_view text) : field_(field), text_(text) {
    Skip();
  }

  bool AtEnd() const { return next_ == text_.size(); }
  size_t position() const { return next_; }
  // The next character, or '\0' at the end.
  char Peek() const { return AtEnd() ? '\0' : text_[next_]; }
  bool LooksAt(std::string_view token) const { return text_.substr(next_).starts_with(token); }
  // Whether the next word is exactly `word`.
  bool LooksAtWord(std::string_view word) const { return PeekWord() == word; }
  // A run of letters, digits and underscores that does not start with a digit; "" when there is
  // none here.
  std::string_view PeekWord() const;

  // If `token` comes next, moves past it and returns true.
  bool Take(std::string_view token);
  bool TakeWord(std::string_view word);
  // The same, or an error when the token, the end or a word does not come next.
  absl::Status Expect(std::string_view token);
  absl::Status ExpectEnd();
  absl::StatusOr<std::string> ExpectWord(std::string_view what);
  // A decimal integer with an optional minus.
  absl::StatusOr<int64_t> ExpectInt(std::string_view what);
  // A string between `quote` characters; a backslash keeps the character after it.
  absl::StatusOr<std::string> ExpectQuoted(char quote, std::string_view what);
  // `open` item ',' item ... `close`, or `open close`.
  absl::Status ExpectList(std::string_view open, std::string_view close,
                          absl::FunctionRef<absl::Status()> item);
  absl::StatusOr<std::vector<int64_t>> ExpectInts(std::string_view open, std::string_view close,
                                                  std::string_view what);

  // The error "column N: expected `what`, found ..." at the next token.
  absl::Status Expected(std::string_view what) const;
  // The error "column N: `message`", at a position noted before.
  absl::Status ErrorAt(size_t position, std::string_view message) const;
  // Adds a position to a status without a field; OK stays OK.
  absl::Status Locate(size_t position, const absl::Status& status) const;

 private:
  void Skip();

  std::string_view field_;
  std::string_view text_;
  size_t next_ = 0;
  bool last_comment_seen_ =
      false;  // no "*/" lies ahead: repeated searches would take quadratic time
};

}  // namespace remesh::planner
