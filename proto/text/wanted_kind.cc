// SPDX-License-Identifier: Apache-2.0
#include "proto/text/wanted_kind.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/text/field_kinds.h"

namespace remesh::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// "[8, 8]" for "8,8", "8x8", "(8, 8)" and "8 8"; "" for other texts.
std::string AsList(const std::string& text) {
  std::vector<std::string> numbers;
  for (absl::string_view part :
       absl::StrSplit(text, absl::ByAnyChar("(), xX"), absl::SkipEmpty())) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(part, &number)) return "";
    numbers.push_back(absl::StrCat(number));
  }
  return numbers.empty() ? "" : absl::StrCat("[", absl::StrJoin(numbers, ", "), "]");
}

}  // namespace

std::string WantsList(const FieldDescriptor& field, const std::string& text) {
  if (IsMessage(field)) {
    return absl::StrCat("must be a list: write \"- \" before each entry below ", field.name(), ":");
  }
  const std::string list = AsList(text);
  return absl::StrCat("must be a list, as in ", field.name(), ": ", list.empty() ? "[8, 8]" : list);
}

std::string NamesOf(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return absl::StrJoin(names, ", ");
}

std::string WantsMessage(const FieldDescriptor& field) {
  if (IsOf(field, kSharding)) {
    return "must be the key of a sharding, or a map such as {hlo_text: '{devices=[4,1]<=[4]}', "
           "devices: {range: {count: 4}}}. Put quotes around the text of a sharding";
  }
  return absl::StrCat("must be a map of ", NamesOf(*field.message_type()));
}

std::string WantsScalar(const FieldDescriptor& field) {
  if (field.name() == "hlo_text" || field.name() == "op_sharding") {
    return absl::StrCat(
        "must be a string: put quotes around it, as in hlo_text: "
        "'{devices=[4,1]<=[4]}'");
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING)
    return absl::StrCat("must be a string: put quotes around it, as in ", field.name(), ": '...'");
  return "must be one value, not a list or a map";
}

}  // namespace remesh::proto
