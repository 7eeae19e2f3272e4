// SPDX-License-Identifier: Apache-2.0
#include "proto/text/pasted/pasted.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"
#include "planner/sharding/text_scanner.h"
#include "proto/text/pasted/jax.h"
#include "proto/text/pasted/pieces.h"
#include "proto/text/pasted/torch.h"

namespace remesh::proto {
namespace {

using planner::TextScanner;
using Json = PastedJson;

constexpr char kWriteBoth[] =
    "write mesh and spec together, as in NamedSharding(mesh=Mesh('x': 4), spec=P('x', None))";
constexpr char kWriteDTensor[] =
    "write {dtensor: {mesh_shape: [2, 2], placements: [Shard(0), Replicate()]}, devices: {range: "
    "{count: 4}}} with the sizes of the mesh";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool StartsWith(std::string_view text, absl::string_view start) {
  return absl::StartsWith(View(text), start);
}

absl::Status Refuse(std::string_view text, const std::string& what) {
  return InvalidField("", text, what);
}

// Placements without their mesh: all devices are along the only one.
absl::StatusOr<PastedSharding> ReadMeshless(TextScanner scanner, std::string_view text) {
  ASSIGN_OR_RETURN(Json placements, ReadPlacements(scanner));
  RETURN_IF_ERROR(scanner.ExpectEnd());
  if (placements.size() != 1) {
    return Refuse(text, absl::StrCat("lists DTensor placements without a mesh: ", kWriteDTensor));
  }
  return PastedSharding{.members = {{"dtensor", {{"placements", std::move(placements)}}}}};
}

bool IsName(std::string_view text) {
  for (const char c : text) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ||
                       c == '.' || c == '/' || c == ':';
    if (!plain) return false;
  }
  return !text.empty();
}

// What a text is that no sharding can be made of.
absl::Status NoSharding(std::string_view text) {
  if (StartsWith(text, "PartitionSpec") || StartsWith(text, "P("))
    return Refuse(text, absl::StrCat("is a PartitionSpec without a mesh: ", kWriteBoth));
  if (StartsWith(text, "Mesh(") || StartsWith(text, "AbstractMesh("))
    return Refuse(text, absl::StrCat("is a mesh without a spec: ", kWriteBoth));
  if (StartsWith(text, "DeviceMesh("))
    return Refuse(text, absl::StrCat("is a mesh without placements: ", kWriteDTensor));
  if (StartsWith(text, "PositionalSharding") || StartsWith(text, "PmapSharding")) {
    return Refuse(
        text,
        "is a JAX sharding whose text does not say what each device holds: convert it with "
        "x = jax.device_put(x, NamedSharding(mesh, spec)), and write what "
        "str(x.sharding) prints");
  }
  if (StartsWith(text, "[") || StartsWith(text, "<")) {
    return Refuse(
        text,
        "is Shardy's text without a mesh: write '#sdy.sharding<mesh<[\"x\"=4]>, [{\"x\"}, "
        "{}]>' with the axes of the mesh");
  }
  return Refuse(
      text,
      "is not a sharding: write the key of one in shardings, HLO's text as in "
      "'{devices=[4,1]<=[4]}', Shardy's as in '#sdy.sharding<...>', or what JAX prints as in "
      "NamedSharding(mesh=Mesh('x': 4), spec=P('x', None))");
}

absl::StatusOr<Json> RangeOf(absl::string_view part, absl::string_view separator,
                             std::string_view text) {
  const std::vector<absl::string_view> ends = absl::StrSplit(part, absl::MaxSplits(separator, 1));
  int64_t first = 0, last = 0;
  if (ends.size() == 2 && absl::SimpleAtoi(ends[0], &first) && absl::SimpleAtoi(ends[1], &last) &&
      first >= 0 && last >= first && last - first < planner::kPositionsMax) {
    return Json{{"range", {{"start", first}, {"count", last - first + 1}}}};
  }
  return Refuse(
      text,
      "must be the key of a list in device_lists, or ids, as in 0-7, [3, 1, 0] or {range: "
      "{start: 0, count: 8}}");
}

}  // namespace

absl::StatusOr<PastedSharding> ReadPastedSharding(std::string_view all) {
  const absl::string_view stripped = absl::StripAsciiWhitespace(View(all));
  const std::string_view text(stripped.data(), stripped.size());
  const TextScanner scanner("", text);
  const std::string copy(text);
  if (IsName(text)) return PastedSharding{.members = {{"ref", copy}}};
  if (StartsWith(text, "{")) return PastedSharding{.members = {{"hlo_text", copy}}};
  if (StartsWith(text, "#sdy") || StartsWith(text, "sdy.mesh"))
    return PastedSharding{.members = {{"sdy_text", copy}}};
  if (StartsWith(text, "<mesh<"))
    return PastedSharding{.members = {{"sdy_text", "#sdy.sharding" + copy}}};
  if (StartsWith(text, "NamedSharding(")) return ReadNamedSharding(scanner);
  if (StartsWith(text, "GSPMDSharding(")) return ReadGspmdSharding(scanner, text);
  if (StartsWith(text, "SingleDeviceSharding(")) return ReadSingleDevice(scanner);
  if (StartsWith(text, "DTensorSpec(") || StartsWith(text, "DTensor("))
    return ReadDTensorSpec(scanner);
  if (LooksLikePlacements(text)) return ReadMeshless(scanner, text);
  return NoSharding(text);
}

absl::StatusOr<PastedJson> ReadPastedPlacements(std::string_view text) {
  TextScanner scanner("", text);
  ASSIGN_OR_RETURN(Json placements, ReadPlacements(scanner));
  RETURN_IF_ERROR(scanner.ExpectEnd());
  return placements;
}

absl::StatusOr<PastedJson> ReadPastedPlacement(std::string_view text) {
  TextScanner scanner("", text);
  ASSIGN_OR_RETURN(Json placement, ReadPlacement(scanner));
  RETURN_IF_ERROR(scanner.ExpectEnd());
  return placement;
}

absl::StatusOr<PastedJson> ReadPastedDevices(std::string_view text) {
  const absl::string_view stripped = absl::StripAsciiWhitespace(View(text));
  if (absl::StrContains(stripped, "..")) return RangeOf(stripped, "..", text);
  std::vector<int64_t> ids;
  const std::vector<absl::string_view> parts = absl::StrSplit(stripped, ',');
  for (const absl::string_view part : parts) {
    int64_t id = 0;
    if (absl::SimpleAtoi(part, &id)) ids.push_back(id);
  }
  if (ids.size() == parts.size()) return DevicesOf(ids);
  const bool range = stripped.find_first_not_of("0123456789-") == absl::string_view::npos;
  if (range || !IsName({stripped.data(), stripped.size()})) return RangeOf(stripped, "-", text);
  return Json{{"ref", std::string(stripped)}};
}

std::string FormOfText(const std::string& text) {
  constexpr const char* kPrinted[] = {"NamedSharding(",
                                      "GSPMDSharding(",
                                      "SingleDeviceSharding(",
                                      "PositionalSharding(",
                                      "PmapSharding(",
                                      "PartitionSpec(",
                                      "DTensorSpec(",
                                      "[{",
                                      "<@",
                                      "<mesh<"};
  for (const char* start : kPrinted) {
    if (absl::StartsWith(text, start)) return "printed";
  }
  if (absl::StartsWith(text, "#sdy.") || absl::StartsWith(text, "sdy.mesh")) return "sdy_text";
  return absl::StartsWith(text, "{") ? "hlo_text" : "";
}

}  // namespace remesh::proto
