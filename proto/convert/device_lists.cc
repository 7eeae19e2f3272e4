// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/device_lists.h"

#include <limits>
#include <memory>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/missing_field.h"
#include "base/problems.h"
#include "base/status_macros.h"
#include "base/text/nearest.h"
#include "planner/sharding/limits.h"
#include "proto/convert/sorted_keys.h"

namespace remesh::proto {

using planner::DeviceList;
using planner::DeviceListPtr;
using planner::kPositionsMax;

namespace {

// Limit on all different lists of a message: a range of a few bytes can make a long list.
constexpr int64_t kAllPositionsMax = int64_t{1} << 23;

absl::StatusOr<DeviceList> FromIds(const google::protobuf::RepeatedField<int64_t>& ids) {
  if (ids.empty()) {
    return MissingField(
        "ids",
        "a sharding must say its devices, as in {hlo_text: '{devices=[4,1]<=[4]}', devices: "
        "{range: {start: 0, count: 4}}}; they may also be [0, 1, 2, 3], or the key of an entry of "
        "device_lists");
  }
  if (ids.size() > kPositionsMax) {
    return InvalidField("ids", absl::StrCat(ids.size(), " ids"),
                        absl::StrCat("must be at most ", kPositionsMax));
  }
  absl::flat_hash_set<int64_t> seen;
  seen.reserve(ids.size());
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && seen.insert(ids[i]).second) continue;
    return InvalidField(
        absl::StrCat("ids[", i, "]"), absl::StrCat(ids[i]),
        ids[i] < 0 ? "must be >= 0" : "is listed more than once: list each device once");
  }
  return DeviceList(ids.begin(), ids.end());
}

absl::StatusOr<DeviceList> FromRange(const v1::DeviceList::Range& range) {
  if (range.start() < 0)
    return InvalidField("range.start", absl::StrCat(range.start()), "must be >= 0");
  if (range.count() < 1 || range.count() > kPositionsMax) {
    return InvalidField("range.count", absl::StrCat(range.count()),
                        absl::StrCat("must be 1 to ", kPositionsMax));
  }
  if (range.start() > std::numeric_limits<int64_t>::max() - range.count()) {
    return InvalidField("range.start", absl::StrCat(range.start()),
                        "must be less, for ids overflow");
  }
  DeviceList ids(range.count());
  std::iota(ids.begin(), ids.end(), range.start());
  return ids;
}

}  // namespace

absl::Status DeviceLists::SetNamed(const Named& lists, planner::Budget& budget) {
  named_.clear();
  refused_.clear();
  Problems problems;
  for (const std::string& key : SortedKeys(lists)) {
    absl::StatusOr<DeviceListPtr> list = ResolveNamed(lists.at(key));
    if (list.ok()) {
      named_[key] = *std::move(list);
    } else {
      const absl::Status status = AtField(absl::StrCat("device_lists[", key, "]"), list.status());
      refused_.emplace(key, status);
      RETURN_IF_ERROR(problems.Note(status));
    }
    RETURN_IF_ERROR(budget.Check());
  }
  return problems.ToStatus();
}

absl::StatusOr<DeviceListPtr> DeviceLists::ResolveNamed(const v1::DeviceList& list) {
  if (!list.has_ref()) return Resolve(list);
  return InvalidField(
      "ref", list.ref(),
      "must not be used here: an entry of device_lists has ids or a range of its own");
}

const absl::Status* DeviceLists::Refusal(const std::string& key) const {
  const auto found = refused_.find(key);
  return found == refused_.end() ? nullptr : &found->second;
}

// Names no field: a text may stand for {ref: text}.
absl::StatusOr<DeviceListPtr> DeviceLists::NoSuchList(const std::string& ref) const {
  const std::string known = KnownKeys(ref, named_);
  const bool guessed = absl::StartsWith(known, ";");
  return InvalidField("", ref,
                      absl::StrCat("must be a key of device_lists", known,
                                   guessed ? ""
                                           : ": list the devices here, as in [0, 1, 2, 3] or "
                                             "{range: {start: 0, count: 4}}, or add it there"));
}

absl::StatusOr<DeviceListPtr> DeviceLists::Resolve(const v1::DeviceList& list) {
  if (list.form_case() != v1::DeviceList::FORM_NOT_SET && !list.ids().empty()) {
    return InvalidField(
        "ids", absl::StrCat(list.ids_size(), " ids"),
        absl::StrCat("must be empty, for ", list.has_ref() ? "ref" : "range", " is set"));
  }
  if (list.has_ref()) {
    const auto found = named_.find(list.ref());
    return found == named_.end() ? NoSuchList(list.ref()) : found->second;
  }
  if (list.has_range()) return ResolveRange(list.range());
  ASSIGN_OR_RETURN(DeviceList ids, FromIds(list.ids()));
  return Intern(std::move(ids));
}

absl::StatusOr<DeviceListPtr> DeviceLists::ResolveRange(const v1::DeviceList::Range& range) {
  const std::pair<int64_t, int64_t> key(range.start(), range.count());
  if (const auto found = ranges_.find(key); found != ranges_.end()) return found->second;
  ASSIGN_OR_RETURN(DeviceList ids, FromRange(range));
  ASSIGN_OR_RETURN(DeviceListPtr list, Intern(std::move(ids)));
  ranges_.emplace(key, list);
  return list;
}

absl::StatusOr<DeviceListPtr> DeviceLists::Intern(DeviceList ids) {
  if (const auto found = interned_.find(ids); found != interned_.end()) return found->second;
  positions_ += static_cast<int64_t>(ids.size());
  if (positions_ > kAllPositionsMax) {
    return InvalidField(
        "", absl::StrCat(positions_, " positions"),
        absl::StrCat("must be at most ", kAllPositionsMax, " in all device lists together"));
  }
  auto shared = std::make_shared<const DeviceList>(ids);
  interned_.emplace(std::move(ids), shared);
  return DeviceListPtr(shared);
}

}  // namespace remesh::proto
