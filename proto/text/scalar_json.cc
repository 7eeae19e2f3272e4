// SPDX-License-Identifier: Apache-2.0
#include "proto/text/scalar_json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text/nearest.h"
#include "base/text/units.h"
#include "remesh/v1/unit.pb.h"

namespace remesh::proto {
namespace {

using google::protobuf::FieldDescriptor;

v1::Unit UnitOf(const FieldDescriptor& field) { return field.options().GetExtension(v1::unit); }

absl::StatusOr<std::string> ReadWholeNumber(const FieldDescriptor& field, const Scalar& scalar) {
  int64_t number = 0;
  uint64_t large = 0;
  const bool is_unsigned = field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ||
                           field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
  if (absl::SimpleAtoi(scalar.text, &number) ||
      (is_unsigned && absl::SimpleAtoi(scalar.text, &large))) {
    const bool small = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
    const bool fits = number >= std::numeric_limits<int32_t>::min() &&
                      number <= std::numeric_limits<int32_t>::max();
    if (!small || fits) return scalar.json;
    return absl::InvalidArgumentError("must be a whole number of at most 32 bits");
  }
  if (UnitOf(field) == v1::BYTES) {
    ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(scalar.text));
    return absl::StrCat(bytes);
  }
  double real = 0;
  if (!absl::SimpleAtod(scalar.text, &real) || real != std::floor(real))
    return absl::InvalidArgumentError("must be a whole number");
  if (std::fabs(real) >= 9e15) return absl::InvalidArgumentError("is too large");
  return absl::StrCat(static_cast<int64_t>(real));
}

absl::StatusOr<std::string> ReadReal(const FieldDescriptor& field, const Scalar& scalar) {
  double number = 0;
  if (absl::SimpleAtod(scalar.text, &number) && std::isfinite(number)) return scalar.json;
  const v1::Unit unit = UnitOf(field);
  if (unit == v1::UNIT_UNSPECIFIED) return absl::InvalidArgumentError("must be a number");
  ASSIGN_OR_RETURN(number, unit == v1::RATE ? ParseRate(scalar.text) : ParseSeconds(scalar.text));
  return absl::StrFormat("%.17g", number);
}

absl::StatusOr<std::string> ReadEnum(const FieldDescriptor& field, const Scalar& scalar) {
  int32_t number = 0;
  if (!scalar.is_string || absl::SimpleAtoi(scalar.text, &number)) return scalar.json;
  if (field.enum_type()->FindValueByName(scalar.text) != nullptr) return scalar.json;
  std::vector<std::string> names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    const std::string& name = field.enum_type()->value(i)->name();
    if (absl::EqualsIgnoreCase(name, scalar.text)) return Quoted(name);
    if (!absl::EndsWith(name, "_UNSPECIFIED")) names.push_back(name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be one of ", absl::StrJoin(names, ", "),
                   DidYouMean(absl::AsciiStrToUpper(scalar.text), names)));
}

absl::StatusOr<std::string> ReadString(const FieldDescriptor& field, const Scalar& scalar) {
  std::string bytes;
  const bool is_bytes = field.type() == FieldDescriptor::TYPE_BYTES;
  if (!is_bytes || absl::Base64Unescape(scalar.text, &bytes) ||
      absl::WebSafeBase64Unescape(scalar.text, &bytes))
    return scalar.json;
  return absl::InvalidArgumentError(
      "must be bytes in base64; a text of HLO or Shardy goes into hlo_text or sdy_text");
}

}  // namespace

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::string> ReadScalar(const FieldDescriptor& field, const Scalar& scalar) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return ReadWholeNumber(field, scalar);
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return ReadReal(field, scalar);
    case FieldDescriptor::CPPTYPE_ENUM:
      return ReadEnum(field, scalar);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (scalar.text == "true" || scalar.text == "false") return scalar.json;
      return absl::InvalidArgumentError("must be true or false");
    case FieldDescriptor::CPPTYPE_STRING:
      return ReadString(field, scalar);
    default:
      return scalar.json;
  }
}

}  // namespace remesh::proto
