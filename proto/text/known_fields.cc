// SPDX-License-Identifier: Apache-2.0
#include "proto/text/known_fields.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/nearest.h"

namespace remesh::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// What other tools call a field.
struct OtherName {
  std::string_view theirs;
  std::string_view ours;
};
constexpr OtherName kOtherNames[] = {
    {"dtype", "element_type"},
    {"type", "element_type"},
    {"size", "shape"},
    {"sizes", "mesh_shape"},
    {"end", "count"},
    {"stop", "count"},
    {"to", "target"},
    {"dst", "target"},
    {"destination", "target"},
    {"from", "source"},
    {"src", "source"},
    {"text", "hlo_text"},
    {"key", "ref"},
    {"mesh_dims", "mesh_shape"},
    {"sharding", "source"},
    {"gpus", "device_ids"},
    {"devices", "device_ids"},
    {"bandwidth", "nic_bytes_per_second"},
    {"memory_limit", "memory_limit_bytes"},
};

// The field that another tool calls `name`; "" if there is none.
std::string OursOf(const Descriptor& type, const std::string& name) {
  for (const OtherName& other : kOtherNames) {
    const std::string ours(other.ours);
    if (other.theirs == name && type.FindFieldByName(ours) != nullptr) return ours;
  }
  return "";
}

}  // namespace

const FieldDescriptor* FindField(const Descriptor& type, const std::string& name) {
  if (const FieldDescriptor* field = type.FindFieldByName(name)) return field;
  return type.FindFieldByCamelcaseName(name);
}

std::string UnknownFieldText(const Descriptor& type, const std::string& name) {
  // In the writer's spelling: lowerCamel when the name has a capital.
  const bool camel = std::any_of(name.begin(), name.end(), absl::ascii_isupper);
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(camel ? type.field(i)->json_name() : type.field(i)->name());
  }
  const std::string ours = OursOf(type, name);
  std::string hint =
      ours.empty() ? DidYouMean(name, names) : absl::StrCat("; did you mean \"", ours, "\"?");
  if (ours == "count") hint = "; use \"count\": devices 0 to 7 are {start: 0, count: 8}.";
  return absl::StrCat("is not a known field", hint.empty() ? "." : hint,
                      " Fields here: ", absl::StrJoin(names, ", "));
}

}  // namespace remesh::proto
