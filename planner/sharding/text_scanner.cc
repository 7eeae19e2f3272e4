// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/text_scanner.h"

#include <charconv>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::planner {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

void TextScanner::Skip() {
  while (next_ < text_.size()) {
    const std::string_view rest = text_.substr(next_);
    if (std::string_view(" \t\r\n").find(rest[0]) != std::string_view::npos) {
      ++next_;
    } else if (rest.starts_with("/*") && !last_comment_seen_) {
      const size_t end = rest.find("*/", 2);
      last_comment_seen_ = end == std::string_view::npos;
      if (last_comment_seen_) return;  // the error is then about the slash
      next_ += end + 2;
    } else if (rest.starts_with("//")) {
      const size_t end = rest.find('\n');
      next_ = end == std::string_view::npos ? text_.size() : next_ + end;
    } else {
      return;
    }
  }
}

std::string_view TextScanner::PeekWord() const {
  if (AtEnd() || !IsWordStart(text_[next_])) return {};
  size_t end = next_ + 1;
  while (end < text_.size() && (IsWordStart(text_[end]) || IsDigit(text_[end]))) ++end;
  return text_.substr(next_, end - next_);
}

bool TextScanner::Take(std::string_view token) {
  if (!LooksAt(token)) return false;
  next_ += token.size();
  Skip();
  return true;
}

bool TextScanner::TakeWord(std::string_view word) { return PeekWord() == word && Take(word); }

absl::Status TextScanner::Expect(std::string_view token) {
  if (Take(token)) return absl::OkStatus();
  return Expected(absl::StrCat("'", View(token), "'"));
}

absl::Status TextScanner::ExpectEnd() {
  if (AtEnd()) return absl::OkStatus();
  return ErrorAt(next_, "Extra content after sharding");
}

absl::StatusOr<std::string> TextScanner::ExpectWord(std::string_view what) {
  const std::string_view word = PeekWord();
  if (word.empty()) return Expected(what);
  Take(word);
  return std::string(word);
}

absl::StatusOr<int64_t> TextScanner::ExpectInt(std::string_view what) {
  int64_t value = 0;
  const char* begin = text_.data() + next_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) {
    return ErrorAt(next_, absl::StrCat(View(what), " does not fit 64 bits"));
  }
  if (error != std::errc()) return Expected(what);
  next_ += static_cast<size_t>(end - begin);
  Skip();
  return value;
}

absl::StatusOr<std::string> TextScanner::ExpectQuoted(char quote, std::string_view what) {
  if (Peek() != quote) return Expected(what);
  std::string value;
  for (size_t i = next_ + 1; i < text_.size(); ++i) {
    if (text_[i] == quote) {
      next_ = i + 1;
      Skip();
      return value;
    }
    if (text_[i] == '\\' && i + 1 < text_.size()) ++i;
    value += text_[i];
  }
  return ErrorAt(next_, absl::StrCat(View(what), " has no closing quote"));
}

absl::Status TextScanner::ExpectList(std::string_view open, std::string_view close,
                                     absl::FunctionRef<absl::Status()> item) {
  RETURN_IF_ERROR(Expect(open));
  if (Take(close)) return absl::OkStatus();
  while (true) {
    RETURN_IF_ERROR(item());
    if (Take(close)) return absl::OkStatus();
    if (!Take(",")) return Expected(absl::StrCat("',' or '", View(close), "'"));
  }
}

absl::StatusOr<std::vector<int64_t>> TextScanner::ExpectInts(std::string_view open,
                                                             std::string_view close,
                                                             std::string_view what) {
  std::vector<int64_t> values;
  RETURN_IF_ERROR(ExpectList(open, close, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t value, ExpectInt(what));
    values.push_back(value);
    return absl::OkStatus();
  }));
  return values;
}

absl::Status TextScanner::Expected(std::string_view what) const {
  if (AtEnd()) return ErrorAt(next_, absl::StrCat("expected ", View(what), ", found the end"));
  const std::string_view word = PeekWord();
  const std::string_view found = (word.empty() ? text_.substr(next_, 1) : word).substr(0, 32);
  return ErrorAt(next_, absl::StrCat("expected ", View(what), ", found '",
                                     absl::CHexEscape(View(found)), "'"));
}

absl::Status TextScanner::ErrorAt(size_t position, std::string_view message) const {
  return InvalidField(field_, text_, absl::StrCat("column ", position + 1, ": ", View(message)));
}

absl::Status TextScanner::Locate(size_t position, const absl::Status& status) const {
  if (status.ok()) return status;
  const absl::string_view message = status.message();
  return ErrorAt(position, std::string_view(message.data(), message.size()));
}

}  // namespace remesh::planner
