// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/pathways.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/text/json_guard.h"
#include "proto/text/text.h"
#include "proto/text/yaml_to_json.h"

namespace remesh::proto {
namespace {

using Json = nlohmann::json;

constexpr char kRoot[] = "reshardRequest";

std::string At(const std::string& path, const std::string& key) {
  return path.empty() ? key : absl::StrCat(path, ".", key);
}

std::string At(const std::string& path, size_t index) {
  return absl::StrCat(path, "[", index, "]");
}

// The member `key` of `object`; an empty Json of `type` when it is missing and `optional`.
absl::StatusOr<const Json*> Member(const Json& object, const std::string& path,
                                   const std::string& key, Json::value_t type,
                                   bool optional = false) {
  const auto found = object.find(key);
  if (found == object.end()) {
    if (optional) return static_cast<const Json*>(nullptr);
    return InvalidField(At(path, key), "", "is missing");
  }
  if (found->type() != type) {
    return InvalidField(At(path, key), found->dump().substr(0, 200),
                        absl::StrCat("must be a JSON ", Json(type).type_name()));
  }
  return &*found;
}

absl::Status CheckKeys(const Json& object, const std::string& path,
                       const std::set<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (!known.contains(key)) return InvalidField(At(path, key), key, "is not a known field");
  }
  return absl::OkStatus();
}

// Adds new shardings and device lists to the maps of a spec and refers to those that are already
// there.
class Reader {
 public:
  // Adds `sharding` as an entry of the spec's map, and sets `reference` to it.
  absl::Status AddSharding(const Json& sharding, const std::string& path, v1::Sharding& reference) {
    if (!sharding.is_object()) {
      return InvalidField(path, sharding.dump().substr(0, 200), "must be a JSON object");
    }
    RETURN_IF_ERROR(CheckKeys(sharding, path, {"devices", "xla_hlo_sharding", "memory_kind"}));
    v1::Sharding value;
    ASSIGN_OR_RETURN(const Json* devices, Member(sharding, path, "devices", Json::value_t::object));
    ASSIGN_OR_RETURN(*value.mutable_devices()->mutable_ref(),
                     AddDevices(*devices, At(path, "devices")));
    RETURN_IF_ERROR(ReadOpSharding(sharding, path, value));
    ASSIGN_OR_RETURN(const Json* memory_kind, Member(sharding, path, "memory_kind",
                                                     Json::value_t::string, /*optional=*/true));
    if (memory_kind != nullptr) value.set_memory_kind(memory_kind->get<std::string>());
    const std::string name = path.substr(sizeof(kRoot));  // as errors name it: "inSharding[3]"
    const auto [at, inserted] = sharding_names_.try_emplace(value.SerializeAsString(), name);
    if (inserted) (*spec_.mutable_shardings())[name] = std::move(value);
    reference.set_ref(at->second);
    return absl::OkStatus();
  }

  v1::PlanSpec& spec() { return spec_; }

 private:
  absl::StatusOr<std::string> AddDevices(const Json& devices, const std::string& path) {
    RETURN_IF_ERROR(CheckKeys(devices, path, {"device_ids"}));
    ASSIGN_OR_RETURN(const Json* ids, Member(devices, path, "device_ids", Json::value_t::array));
    v1::DeviceList list;
    for (size_t i = 0; i < ids->size(); ++i) {
      const Json& id = (*ids)[i];
      // Device ids in IFRT and in its messages have 32 bits.
      if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
        return InvalidField(At(At(path, "device_ids"), i), id.dump().substr(0, 200),
                            "must be an integer from 0 to 2147483647");
      }
      list.add_ids(id.get<int64_t>());
    }
    const std::string name = path.substr(sizeof(kRoot));
    const auto [at, inserted] = list_names_.try_emplace(list.SerializeAsString(), name);
    if (inserted) (*spec_.mutable_device_lists())[name] = std::move(list);
    return at->second;
  }

  static absl::Status ReadOpSharding(const Json& sharding, const std::string& path,
                                     v1::Sharding& value) {
    ASSIGN_OR_RETURN(const Json* text,
                     Member(sharding, path, "xla_hlo_sharding", Json::value_t::string));
    if (absl::Base64Unescape(text->get_ref<const std::string&>(), value.mutable_op_sharding())) {
      return absl::OkStatus();
    }
    return InvalidField(At(path, "xla_hlo_sharding"), text->get<std::string>(),
                        "must be base64 of an xla.OpSharding");
  }

  v1::PlanSpec spec_;
  std::map<std::string, std::string> list_names_, sharding_names_;  // by serialized value
};

// Returns JSON unchanged and YAML as JSON.
absl::StatusOr<std::string> ArraysAsJson(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  const bool json = start == std::string_view::npos || text[start] == '[' || text[start] == '{';
  if (!json) return YamlToJson(text);
  RETURN_IF_ERROR(CheckJson(text));
  return std::string(text);
}

// Adds names, shapes and types to `spec`.
absl::Status ReadArrays(std::string_view text, v1::PlanSpec& spec) {
  v1::PlanSpec arrays;
  ASSIGN_OR_RETURN(const std::string json, ArraysAsJson(text));
  RETURN_IF_ERROR(ParseText(absl::StrCat("{\"arrays\":", json, "}"), arrays));
  for (int i = 0; i < arrays.arrays_size(); ++i) {
    for (const char* side : {"source", "target"}) {
      const bool set = *side == 's' ? arrays.arrays(i).has_source() : arrays.arrays(i).has_target();
      if (set) {
        return InvalidField(absl::StrCat("arrays[", i, "].", side), side,
                            "must not be set: the request says it");
      }
    }
  }
  spec.mutable_arrays()->Swap(arrays.mutable_arrays());
  return absl::OkStatus();
}

// Reads the list of shardings of one side, one for each array.
absl::Status ReadSide(const Json& request, const std::string& key, bool is_source, Reader& reader) {
  const std::string path = At(kRoot, key);
  ASSIGN_OR_RETURN(const Json* list, Member(request, kRoot, key, Json::value_t::array));
  v1::PlanSpec& spec = reader.spec();
  if (static_cast<int>(list->size()) != spec.arrays_size()) {
    return InvalidField(path, absl::StrCat(list->size(), " shardings"),
                        absl::StrCat("must be ", spec.arrays_size(), ", one for each array"));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    v1::ArraySpec& array = *spec.mutable_arrays(static_cast<int>(i));
    RETURN_IF_ERROR(reader.AddSharding(
        (*list)[i], At(path, i), is_source ? *array.mutable_source() : *array.mutable_target()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::PlanSpec> ParsePathways(std::string_view request, std::string_view arrays) {
  RETURN_IF_ERROR(CheckJson(request));
  const Json root = Json::parse(request, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return InvalidField(kRoot, "", "must be in a JSON object");
  ASSIGN_OR_RETURN(const Json* body, Member(root, "", kRoot, Json::value_t::object));
  RETURN_IF_ERROR(CheckKeys(root, "", {kRoot}));
  RETURN_IF_ERROR(CheckKeys(*body, kRoot, {"donateInput", "inSharding", "outSharding"}));
  Reader reader;
  RETURN_IF_ERROR(ReadArrays(arrays, reader.spec()));
  ASSIGN_OR_RETURN(const Json* donate, Member(*body, kRoot, "donateInput", Json::value_t::boolean,
                                              /*optional=*/true));
  if (donate != nullptr) reader.spec().mutable_options()->set_donate(donate->get<bool>());
  RETURN_IF_ERROR(ReadSide(*body, "inSharding", true, reader));
  RETURN_IF_ERROR(ReadSide(*body, "outSharding", false, reader));
  return std::move(reader.spec());
}

}  // namespace remesh::proto
