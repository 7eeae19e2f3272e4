// SPDX-License-Identifier: Apache-2.0
#include "proto/text/pasted/pieces.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"

namespace remesh::proto {
namespace {

using planner::TextScanner;

constexpr int kNestingMax = 8;

absl::Status ReadNested(TextScanner& scanner, size_t level, NestedIds& nested) {
  if (level == kNestingMax) return scanner.Expected("fewer brackets");
  int64_t size = 0;
  RETURN_IF_ERROR(scanner.ExpectList("[", "]", [&]() -> absl::Status {
    ++size;
    if (scanner.LooksAt("[")) return ReadNested(scanner, level + 1, nested);
    ASSIGN_OR_RETURN(const int64_t id, scanner.ExpectInt("a device id"));
    nested.ids.push_back(id);
    return absl::OkStatus();
  }));
  if (nested.sizes.size() <= level) nested.sizes.resize(level + 1, 0);
  nested.sizes[level] = size;
  return absl::OkStatus();
}

}  // namespace

bool LooksAtQuote(const TextScanner& scanner) {
  return scanner.LooksAt("'") || scanner.LooksAt("\"");
}

absl::StatusOr<std::string> ReadQuoted(TextScanner& scanner, std::string_view what) {
  return scanner.ExpectQuoted(scanner.LooksAt("\"") ? '"' : '\'', what);
}

absl::StatusOr<std::string> ReadWord(TextScanner& scanner, std::string_view what) {
  return LooksAtQuote(scanner) ? ReadQuoted(scanner, what) : scanner.ExpectWord(what);
}

absl::Status ReadItems(TextScanner& scanner, std::string_view close,
                       absl::FunctionRef<absl::Status()> item) {
  while (!scanner.Take(close)) {
    RETURN_IF_ERROR(item());
    if (scanner.Take(",") || scanner.LooksAt(close)) continue;
    return scanner.Expected(
        absl::StrCat("',' or '", absl::string_view(close.data(), close.size()), "'"));
  }
  return absl::OkStatus();
}

absl::Status SkipValue(TextScanner& scanner) {
  int depth = 0;
  while (!scanner.AtEnd()) {
    const char next = scanner.Peek();
    if (LooksAtQuote(scanner)) {
      RETURN_IF_ERROR(ReadQuoted(scanner, "a string").status());
      continue;
    }
    const bool closes = next == ')' || next == ']' || next == '}';
    if (depth == 0 && (closes || next == ',')) return absl::OkStatus();
    if (next == '(' || next == '[' || next == '{') ++depth;
    if (closes) --depth;
    scanner.Take(std::string(1, next));
  }
  return absl::OkStatus();
}

bool TakeKeyword(TextScanner& scanner, std::string_view name) {
  TextScanner ahead = scanner;
  if (!ahead.TakeWord(name) || !ahead.Take("=")) return false;
  scanner = ahead;
  return true;
}

absl::StatusOr<int64_t> CountDevices(const std::vector<int64_t>& sizes, const TextScanner& scanner,
                                     size_t at) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size < 1) return scanner.ErrorAt(at, "each axis of the mesh must have at least 1 device");
    if (count > planner::kPositionsMax / size) {
      return scanner.ErrorAt(
          at, absl::StrCat("the mesh must have at most ", planner::kPositionsMax, " devices"));
    }
    count *= size;
  }
  return count;
}

absl::StatusOr<NestedIds> ReadIds(TextScanner& scanner) {
  NestedIds nested;
  const size_t start = scanner.position();
  const bool wrapped = scanner.TakeWord("array") || scanner.TakeWord("tensor");
  if (wrapped) RETURN_IF_ERROR(scanner.Expect("("));
  RETURN_IF_ERROR(ReadNested(scanner, 0, nested));
  while (wrapped && scanner.Take(",")) RETURN_IF_ERROR(SkipValue(scanner));
  if (wrapped) RETURN_IF_ERROR(scanner.Expect(")"));
  ASSIGN_OR_RETURN(const int64_t count, CountDevices(nested.sizes, scanner, start));
  if (count == static_cast<int64_t>(nested.ids.size())) return nested;
  return scanner.ErrorAt(start, "the lists of device ids differ in length");
}

PastedJson DevicesUpTo(int64_t count) { return {{"range", {{"start", 0}, {"count", count}}}}; }

PastedJson DevicesOf(const std::vector<int64_t>& ids) { return {{"ids", ids}}; }

}  // namespace remesh::proto
