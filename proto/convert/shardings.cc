// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/shardings.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/missing_field.h"
#include "base/problems.h"
#include "base/status_macros.h"
#include "base/text/nearest.h"
#include "proto/convert/sorted_keys.h"

namespace remesh::proto {

using planner::Layout;
using planner::MemoryKind;
using planner::Placement;
using planner::Shape;

namespace {

// Limit on all different layouts of a message: bounds the cost of a short message with many shapes,
// or one of many dimensions. A position has an interval for each dimension.
constexpr int64_t kLayoutIntervalsMax = int64_t{1} << 24;

// Names no field: users write no "form".
absl::Status NoForm(const v1::Sharding& sharding) {
  if (sharding.ByteSizeLong() == 0) {
    return MissingField(
        "",
        "it must be a key of shardings, or a sharding, as in {hlo_text: '{devices=[4,1]<=[4]}', "
        "devices: {range: {start: 0, count: 4}}}");
  }
  return InvalidField("", sharding.ShortDebugString(),
                      "must have one of op_sharding, hlo_text, named, dtensor, boxes, sdy_text or "
                      "ref to say how the array is cut, as in hlo_text: '{devices=[4,1]<=[4]}'");
}

absl::StatusOr<MemoryKind> ToMemoryKind(const std::string& kind) {
  if (kind.empty() || kind == "device") return MemoryKind::kDevice;
  if (kind == "pinned_host") return MemoryKind::kPinnedHost;
  if (kind == "unpinned_host") return MemoryKind::kUnpinnedHost;
  return InvalidField("memory_kind", kind, "must be device, pinned_host, unpinned_host or empty");
}

// A named sharding of fewer dimensions than the array, such as JAX's PartitionSpec('x'), leaves the
// others whole. Texts of HLO and Shardy name each.
absl::StatusOr<Layout> ToRankedLayout(const Form& form, const std::string& form_name,
                                      const Shape& shape, int32_t devices) {
  const auto* named = std::get_if<planner::NamedSharding>(&form);
  if (named == nullptr || form_name != "named" || named->dims.size() >= shape.size())
    return ToLayout(form, shape, devices);
  planner::NamedSharding ranked = *named;
  ranked.dims.resize(shape.size());
  return ToLayout(Form(std::move(ranked)), shape, devices);
}

// The layout. Errors name the form's field where the front end says "sharding".
absl::StatusOr<Layout> LayOut(const Form& form, const std::string& form_name, const Shape& shape,
                              size_t devices) {
  auto layout = ToRankedLayout(form, form_name, shape, static_cast<int32_t>(devices));
  if (layout.ok()) return layout;
  const ErrorInfo info = GetErrorInfo(layout.status());
  const auto field = info.metadata.find("field");
  if (field == info.metadata.end() || field->second != "sharding") return layout.status();
  return InvalidField(form_name, info.metadata.at("value"), info.metadata.at("expectation"));
}

// `status` with `note` appended to its expectation.
absl::Status With(const std::string& note, const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  const auto field = info.metadata.find("field"), value = info.metadata.find("value"),
             expectation = info.metadata.find("expectation");
  if (field == info.metadata.end() || value == info.metadata.end() ||
      expectation == info.metadata.end()) {
    return AtField(note, status);
  }
  return InvalidField(field->second, value->second, absl::StrCat(expectation->second, " ", note));
}

}  // namespace

absl::Status Shardings::SetNamed(const Named& shardings, const DeviceLists::Named& lists) {
  named_.clear();
  refused_.clear();
  Problems problems;
  RETURN_IF_ERROR(problems.Note(lists_.SetNamed(lists, budget_)));
  for (const std::string& key : SortedKeys(shardings)) {
    const absl::Status status = AddNamed(key, shardings.at(key));
    if (!status.ok()) refused_.emplace(key, status);
    RETURN_IF_ERROR(problems.Note(status));
    RETURN_IF_ERROR(budget_.Check());
  }
  return problems.ToStatus();
}

absl::Status Shardings::AddNamed(const std::string& key, const v1::Sharding& sharding) {
  const std::string field = absl::StrCat("shardings[", key, "]");
  if (sharding.has_ref()) {
    return InvalidField(
        field + ".ref", sharding.ref(),
        "must not be used here: an entry of shardings has a form of its own, such as "
        "hlo_text");
  }
  if (const absl::Status* list = lists_.Refusal(sharding.devices().ref())) return *list;
  auto entry = ToEntry(sharding);
  RETURN_IF_ERROR(AtField(field, entry.status()));
  named_[key] = *std::move(entry);
  return absl::OkStatus();
}

absl::StatusOr<Placement> Shardings::Resolve(const v1::Sharding& sharding, const Shape& shape,
                                             absl::FunctionRef<std::string()> used_by) {
  if (!sharding.has_ref()) {
    if (const absl::Status* list = lists_.Refusal(sharding.devices().ref())) return *list;
    auto entry = ToEntry(sharding);
    if (!entry.ok()) return AtField(used_by(), entry.status());
    auto placement = Place(*entry, shape);
    if (!placement.ok()) return AtField(used_by(), placement.status());
    return placement;
  }
  if (sharding.has_devices()) {
    return InvalidField(used_by() + ".devices", sharding.devices().ShortDebugString(),
                        "must be empty beside ref");
  }
  if (!sharding.memory_kind().empty()) {
    return InvalidField(used_by() + ".memory_kind", sharding.memory_kind(),
                        "must be empty beside ref");
  }
  const auto refused = refused_.find(sharding.ref());
  if (refused != refused_.end()) return refused->second;
  const auto found = named_.find(sharding.ref());
  if (found == named_.end()) {
    return InvalidField(
        used_by() + ".ref", sharding.ref(),
        absl::StrCat("must be a key of shardings", KnownKeys(sharding.ref(), named_)));
  }
  auto placement = Place(found->second, shape);
  if (placement.ok()) return placement;
  const std::string named = absl::StrCat("shardings[", sharding.ref(), "]");
  // A shape belongs to the array, and the sharding may suit other arrays.
  if (GetErrorInfo(placement.status()).metadata["field"] == "shape")
    return AtField(used_by(), With(absl::StrCat("(from ", named, ")"), placement.status()));
  return With(absl::StrCat("(for ", used_by(), ")"), AtField(named, placement.status()));
}

absl::StatusOr<Shardings::Entry> Shardings::ToEntry(const v1::Sharding& sharding) {
  Entry entry{.form_name = FormName(sharding)};
  if (entry.form_name.empty()) {
    return NoForm(sharding);
  }
  ASSIGN_OR_RETURN(entry.memory_kind, ToMemoryKind(sharding.memory_kind()));
  ASSIGN_OR_RETURN(entry.form, InternForm(sharding));
  ASSIGN_OR_RETURN(entry.devices, DevicesOf(sharding, forms_[entry.form]));
  return entry;
}

absl::StatusOr<int32_t> Shardings::InternForm(const v1::Sharding& sharding) {
  std::string bytes;
  if (sharding.has_devices() || !sharding.memory_kind().empty()) {
    v1::Sharding form = sharding;
    form.clear_devices();
    form.clear_memory_kind();
    bytes = form.SerializeAsString();
  } else {
    bytes = sharding.SerializeAsString();
  }
  if (const auto found = form_index_.find(bytes); found != form_index_.end()) return found->second;
  ASSIGN_OR_RETURN(Form form, ParseForm(sharding));
  forms_.push_back(std::move(form));
  const int32_t index = static_cast<int32_t>(forms_.size()) - 1;
  form_index_.emplace(std::move(bytes), index);
  return index;
}

absl::StatusOr<planner::DeviceListPtr> Shardings::DevicesOf(const v1::Sharding& sharding,
                                                            const Form& form) {
  absl::StatusOr<planner::DeviceListPtr> devices;
  if (const auto* boxes = std::get_if<BoxForm>(&form)) {
    if (sharding.has_devices()) {
      return InvalidField("devices", sharding.devices().ShortDebugString(),
                          "must be empty, for boxes name their devices");
    }
    devices = lists_.Intern(boxes->device_ids);
  } else {
    devices = lists_.Resolve(sharding.devices());
  }
  RETURN_IF_ERROR(AtField("devices", devices.status()));
  return devices;
}

absl::StatusOr<Placement> Shardings::Place(const Entry& entry, const Shape& shape) {
  const size_t count = entry.devices->size();
  const auto key = std::make_tuple(entry.form, count, shape);
  auto found = layouts_.find(key);
  if (found == layouts_.end()) {
    RETURN_IF_ERROR(budget_.Check());
    intervals_ += static_cast<int64_t>(count * std::max<size_t>(shape.size(), 1));
    if (intervals_ > kLayoutIntervalsMax) {
      return InvalidField(
          "devices", absl::StrCat(count, " devices"),
          absl::StrCat("must be fewer: the devices of all different layouts, each times the "
                       "dimensions of its arrays, may be ",
                       kLayoutIntervalsMax));
    }
    ASSIGN_OR_RETURN(Layout layout, LayOut(forms_[entry.form], entry.form_name, shape, count));
    found = layouts_.emplace(key, std::make_shared<const Layout>(std::move(layout))).first;
  }
  return Placement{found->second, entry.devices, entry.memory_kind};
}

}  // namespace remesh::proto
