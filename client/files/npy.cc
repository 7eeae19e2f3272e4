// SPDX-License-Identifier: Apache-2.0
#include "client/files/npy.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::client {

using planner::ElementType;
using planner::Shape;

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;

struct DescrRow {
  ElementType type;
  std::string_view descr;
};

constexpr DescrRow kDescrs[] = {
    {ElementType::kPred, "|b1"}, {ElementType::kS8, "|i1"},    {ElementType::kS16, "<i2"},
    {ElementType::kS32, "<i4"},  {ElementType::kS64, "<i8"},   {ElementType::kU8, "|u1"},
    {ElementType::kU16, "<u2"},  {ElementType::kU32, "<u4"},   {ElementType::kU64, "<u8"},
    {ElementType::kF16, "<f2"},  {ElementType::kF32, "<f4"},   {ElementType::kF64, "<f8"},
    {ElementType::kC64, "<c8"},  {ElementType::kC128, "<c16"},
};

// The text after "'key':" in the header's dictionary, without leading spaces; empty when the key is
// missing.
std::string_view After(std::string_view dictionary, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "':";
  const size_t at = dictionary.find(quoted);
  if (at == std::string_view::npos) return {};
  std::string_view rest = dictionary.substr(at + quoted.size());
  const size_t start = rest.find_first_not_of(' ');
  return start == std::string_view::npos ? std::string_view() : rest.substr(start);
}

// The bytes of an element of "|V2" or "<V2"; 0 for other types. "<f1" is what ml_dtypes calls some
// of its types of one byte.
int RawBytes(std::string_view descr) {
  if (descr == "<f1") return 1;
  int bytes = 0;
  const bool raw = descr.starts_with("|V") || descr.starts_with("<V");
  return raw && absl::SimpleAtoi(absl::string_view(descr.data() + 2, descr.size() - 2), &bytes)
             ? bytes
             : 0;
}

absl::Status ParseDescr(std::string_view dictionary, NpyHeader& header) {
  const std::string_view rest = After(dictionary, "descr");
  const size_t end = rest.empty() ? std::string_view::npos : rest.find('\'', 1);
  const std::string_view descr = end == std::string_view::npos ? rest : rest.substr(1, end - 1);
  for (const DescrRow& row : kDescrs) {
    if (row.descr != descr) continue;
    header.type = row.type;
    return absl::OkStatus();
  }
  if (RawBytes(descr) > 0) {
    header.raw = descr;
    return absl::OkStatus();
  }
  return InvalidField("descr", descr,
                      "must be a little-endian type that NumPy and XLA share, such as <f4");
}

absl::StatusOr<Shape> ParseShape(std::string_view dictionary) {
  const std::string_view rest = After(dictionary, "shape");
  const size_t end = rest.find(')');
  if (rest.empty() || rest[0] != '(' || end == std::string_view::npos) {
    return InvalidField("shape", rest.substr(0, 40), "must be a tuple");
  }
  Shape shape;
  const std::string inside(rest.substr(1, end - 1));
  for (absl::string_view part : absl::StrSplit(inside, ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (part.empty()) continue;
    int64_t extent = 0;
    if (!absl::SimpleAtoi(part, &extent)) {
      return InvalidField("shape", std::string(part), "must be an integer");
    }
    shape.push_back(extent);
  }
  return shape;
}

// The place of the dictionary: {offset, length}.
absl::StatusOr<std::pair<size_t, size_t>> DictionaryRange(std::string_view start) {
  if (start.size() < 10 || start.substr(0, 6) != kMagic) {
    return InvalidField("magic", start.substr(0, 6), "must be \\x93NUMPY: not a .npy file");
  }
  const auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(start[i]));
  };
  const size_t version = byte(6);
  if (version < 1 || version > 3)
    return InvalidField("version", absl::StrCat(version), "must be 1, 2 or 3");
  if (version == 1) return std::pair<size_t, size_t>(10, byte(8) | byte(9) << 8);
  if (start.size() < 12)
    return InvalidField("magic", start.substr(0, 6), "must be followed by a header");
  return std::pair<size_t, size_t>(12, byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24);
}

}  // namespace

std::optional<std::string_view> NpyDescr(ElementType type) {
  for (const DescrRow& row : kDescrs) {
    if (row.type == type) return row.descr;
  }
  return std::nullopt;
}

bool IsRawDescr(ElementType type, std::string_view descr) {
  return !NpyDescr(type).has_value() && RawBytes(descr) * 8 == planner::BitWidth(type);
}

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view start) {
  ASSIGN_OR_RETURN(const auto range, DictionaryRange(start));
  const auto [offset, length] = range;
  if (start.size() - offset < length) {
    return InvalidField("header", absl::StrCat(length), "bytes must lie within the file");
  }
  const std::string_view dictionary = start.substr(offset, length);
  NpyHeader header;
  RETURN_IF_ERROR(ParseDescr(dictionary, header));
  ASSIGN_OR_RETURN(header.shape, ParseShape(dictionary));
  RETURN_IF_ERROR(planner::ValidateShape(header.shape, planner::BitWidth(header.type)));
  const std::string_view order = After(dictionary, "fortran_order");
  if (order.substr(0, 5) != "False") {
    return InvalidField("fortran_order", order.substr(0, order.find_first_of(", }")),
                        "must be False: rows first");
  }
  header.bytes = offset + length;
  return header;
}

std::string FormatNpyHeader(ElementType type, const Shape& shape) {
  const std::optional<std::string_view> descr = NpyDescr(type);
  REMESH_CHECK(descr.has_value());
  const std::string extents =
      absl::StrCat(absl::StrJoin(shape, ", "), shape.size() == 1 ? "," : "");
  std::string dictionary = absl::StrCat("{'descr': '", std::string(*descr),
                                        "', 'fortran_order': False, 'shape': (", extents, "), }");
  const size_t unpadded = 10 + dictionary.size() + 1;
  dictionary.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

}  // namespace remesh::client
