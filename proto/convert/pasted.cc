// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/pasted.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"
#include "planner/sharding/text_scanner.h"

namespace remesh::proto {
namespace {

using planner::TextScanner;
using Json = PastedJson;

constexpr char kWriteBoth[] =
    "write the two together, as in NamedSharding(mesh=Mesh('x': 4), spec=P('x', None))";
constexpr char kWriteDTensor[] =
    "write dtensor: {mesh_shape: [2, 2], placements: [Shard(0), Replicate()]} with the sizes of "
    "the mesh";
constexpr int kNestingMax = 8;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool StartsWith(std::string_view text, absl::string_view start) {
  return absl::StartsWith(View(text), start);
}

absl::Status Refuse(std::string_view text, const std::string& what) {
  return InvalidField("", text, what);
}

// ---- pieces that all forms have

absl::StatusOr<std::string> ReadQuoted(TextScanner& scanner, std::string_view what) {
  return scanner.ExpectQuoted(scanner.LooksAt("\"") ? '"' : '\'', what);
}

bool LooksAtQuote(const TextScanner& scanner) {
  return scanner.LooksAt("'") || scanner.LooksAt("\"");
}

// Moves past a value of no interest, up to the comma or bracket behind it.
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

// Takes `name=`, or nothing.
bool TakeKeyword(TextScanner& scanner, std::string_view name) {
  TextScanner ahead = scanner;
  if (!ahead.TakeWord(name) || !ahead.Take("=")) return false;
  scanner = ahead;
  return true;
}

// The number of devices of a mesh whose axes have these sizes; `at` is where the text has it.
absl::StatusOr<int64_t> CountDevices(const std::vector<int64_t>& sizes, const TextScanner& scanner,
                                     size_t at) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size < 1) return scanner.ErrorAt(at, "each axis of the mesh must have at least 1 device");
    if (count > planner::kPositionsMax / size) {
      return scanner.ErrorAt(
          at, absl::StrCat("the mesh has more than ", planner::kPositionsMax, " devices"));
    }
    count *= size;
  }
  return count;
}

// The ids of nested lists, as in [[0, 1], [2, 3]], and the sizes of the levels.
struct NestedIds {
  std::vector<int64_t> sizes;
  std::vector<int64_t> ids;
};

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

// [[0, 1], [2, 3]], alone or in array(...) or tensor(...).
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

// 0, 1, ... count - 1.
Json DevicesUpTo(int64_t count) { return {{"range", {{"start", 0}, {"count", count}}}}; }

Json DevicesOf(const std::vector<int64_t>& ids) { return {{"ids", ids}}; }

// ---- JAX

struct JaxMesh {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  std::vector<int64_t> ids;  // empty: not printed
  int64_t devices = 0;
  std::vector<std::string> types;  // of the axes; empty: not printed
};

absl::StatusOr<std::vector<std::string>> ReadWords(TextScanner& scanner) {
  std::vector<std::string> words;
  RETURN_IF_ERROR(scanner.Expect("("));
  while (!scanner.Take(")")) {
    if (LooksAtQuote(scanner)) {
      ASSIGN_OR_RETURN(words.emplace_back(), ReadQuoted(scanner, "an axis name in quotes"));
    } else {
      ASSIGN_OR_RETURN(words.emplace_back(), scanner.ExpectWord("a name"));
    }
    if (!scanner.Take(",") && !scanner.LooksAt(")")) return scanner.Expected("',' or ')'");
  }
  return words;
}

absl::StatusOr<std::vector<int64_t>> ReadSizes(TextScanner& scanner) {
  std::vector<int64_t> sizes;
  RETURN_IF_ERROR(scanner.Expect("("));
  while (!scanner.Take(")")) {
    ASSIGN_OR_RETURN(sizes.emplace_back(), scanner.ExpectInt("the size of an axis"));
    if (!scanner.Take(",") && !scanner.LooksAt(")")) return scanner.Expected("',' or ')'");
  }
  return sizes;
}

// One argument of Mesh(...): 'x': 4, or a keyword.
absl::Status ReadMeshArgument(TextScanner& scanner, JaxMesh& mesh) {
  if (LooksAtQuote(scanner)) {
    ASSIGN_OR_RETURN(mesh.names.emplace_back(), ReadQuoted(scanner, "an axis name in quotes"));
    RETURN_IF_ERROR(scanner.Expect(":"));
    ASSIGN_OR_RETURN(mesh.sizes.emplace_back(), scanner.ExpectInt("the size of an axis"));
    return absl::OkStatus();
  }
  if (TakeKeyword(scanner, "axis_types")) {
    ASSIGN_OR_RETURN(mesh.types, ReadWords(scanner));
  } else if (TakeKeyword(scanner, "axis_names")) {
    ASSIGN_OR_RETURN(mesh.names, ReadWords(scanner));
  } else if (TakeKeyword(scanner, "axis_sizes")) {
    ASSIGN_OR_RETURN(mesh.sizes, ReadSizes(scanner));
  } else if (TakeKeyword(scanner, "device_ids")) {
    ASSIGN_OR_RETURN(NestedIds nested, ReadIds(scanner));
    mesh.sizes = std::move(nested.sizes);
    mesh.ids = std::move(nested.ids);
  } else {
    return SkipValue(scanner);
  }
  return absl::OkStatus();
}

absl::StatusOr<JaxMesh> ReadMesh(TextScanner& scanner) {
  JaxMesh mesh;
  const size_t start = scanner.position();
  if (!scanner.TakeWord("Mesh") && !scanner.TakeWord("AbstractMesh"))
    return scanner.Expected("a mesh, as in Mesh('x': 4)");
  RETURN_IF_ERROR(scanner.ExpectList(
      "(", ")", [&]() -> absl::Status { return ReadMeshArgument(scanner, mesh); }));
  if (mesh.names.empty() || mesh.names.size() != mesh.sizes.size())
    return scanner.ErrorAt(start,
                           "expected the name and the size of each axis, as in Mesh('x': 4)");
  ASSIGN_OR_RETURN(mesh.devices, CountDevices(mesh.sizes, scanner, start));
  return mesh;
}

absl::StatusOr<int64_t> AxisOf(const std::string& name, const JaxMesh& mesh,
                               const TextScanner& scanner, size_t at) {
  for (size_t i = 0; i < mesh.names.size(); ++i) {
    if (mesh.names[i] == name) return static_cast<int64_t>(i);
  }
  return scanner.ErrorAt(at, absl::StrCat("the mesh has no axis '", name, "', but '",
                                          absl::StrJoin(mesh.names, "', '"), "'"));
}

Json AxisRef(int64_t axis) { return {{"mesh_axis_index", axis}}; }

absl::StatusOr<Json> ReadAxis(TextScanner& scanner, const JaxMesh& mesh) {
  const size_t at = scanner.position();
  ASSIGN_OR_RETURN(const std::string name, ReadQuoted(scanner, "an axis name in quotes"));
  ASSIGN_OR_RETURN(const int64_t axis, AxisOf(name, mesh, scanner, at));
  return AxisRef(axis);
}

// The axes between brackets.
absl::StatusOr<Json> ReadAxes(TextScanner& scanner, const JaxMesh& mesh, std::string_view close) {
  Json axes = Json::array();
  while (!scanner.Take(close)) {
    ASSIGN_OR_RETURN(axes.emplace_back(), ReadAxis(scanner, mesh));
    if (!scanner.Take(",") && !scanner.LooksAt(close))
      return scanner.Expected(absl::StrCat("',' or '", View(close), "'"));
  }
  return axes;
}

// None, 'x' or ('x', 'y'): what cuts one dimension.
absl::StatusOr<Json> ReadDimension(TextScanner& scanner, const JaxMesh& mesh) {
  Json axes = Json::array();
  if (scanner.TakeWord("None") || scanner.TakeWord("UNCONSTRAINED")) return axes;
  if (scanner.Take("(")) return ReadAxes(scanner, mesh, ")");
  if (!LooksAtQuote(scanner)) return scanner.Expected("None, 'AXIS' or a tuple of axes");
  ASSIGN_OR_RETURN(axes.emplace_back(), ReadAxis(scanner, mesh));
  return axes;
}

// One argument of PartitionSpec(...): a dimension or a keyword.
absl::Status ReadSpecArgument(TextScanner& scanner, const JaxMesh& mesh, Json& named) {
  if (TakeKeyword(scanner, "unreduced")) {
    const bool frozen = scanner.TakeWord("frozenset") && scanner.Take("(");
    RETURN_IF_ERROR(scanner.Expect("{"));
    ASSIGN_OR_RETURN(named["unreduced_axes"], ReadAxes(scanner, mesh, "}"));
    return frozen ? scanner.Expect(")") : absl::OkStatus();
  }
  if (TakeKeyword(scanner, "reduced")) return SkipValue(scanner);
  ASSIGN_OR_RETURN(Json axes, ReadDimension(scanner, mesh));
  named["dim_shardings"].push_back({{"axes", std::move(axes)}, {"is_closed", true}});
  return absl::OkStatus();
}

absl::Status ReadPartitionSpec(TextScanner& scanner, const JaxMesh& mesh, Json& named) {
  if (!scanner.TakeWord("PartitionSpec") && !scanner.TakeWord("P"))
    return scanner.Expected("a spec, as in PartitionSpec('x', None)");
  RETURN_IF_ERROR(scanner.Expect("("));
  while (!scanner.Take(")")) {
    RETURN_IF_ERROR(ReadSpecArgument(scanner, mesh, named));
    if (!scanner.Take(",") && !scanner.LooksAt(")")) return scanner.Expected("',' or ')'");
  }
  return absl::OkStatus();
}

// The arguments behind those that were read; takes the closing parenthesis.
absl::Status ReadMemoryKind(TextScanner& scanner, Json& members) {
  while (scanner.Take(",")) {
    if (!TakeKeyword(scanner, "memory_kind")) {
      RETURN_IF_ERROR(SkipValue(scanner));
      continue;
    }
    std::string kind;
    if (LooksAtQuote(scanner)) {
      ASSIGN_OR_RETURN(kind, ReadQuoted(scanner, "a kind of memory"));
    } else {
      ASSIGN_OR_RETURN(kind, scanner.ExpectWord("a kind of memory"));
    }
    if (kind != "None") members["memory_kind"] = kind;
  }
  RETURN_IF_ERROR(scanner.Expect(")"));
  return scanner.ExpectEnd();
}

// The axes of type Manual: inside shard_map, devices along them hold values of their own.
Json ManualAxes(const JaxMesh& mesh) {
  Json axes = Json::array();
  for (size_t i = 0; i < mesh.types.size() && i < mesh.names.size(); ++i) {
    if (mesh.types[i] == "Manual") axes.push_back(AxisRef(static_cast<int64_t>(i)));
  }
  return axes;
}

absl::StatusOr<PastedSharding> ReadNamedSharding(TextScanner scanner) {
  scanner.Take("NamedSharding");
  RETURN_IF_ERROR(scanner.Expect("("));
  TakeKeyword(scanner, "mesh");
  ASSIGN_OR_RETURN(const JaxMesh mesh, ReadMesh(scanner));
  RETURN_IF_ERROR(scanner.Expect(","));
  TakeKeyword(scanner, "spec");
  Json named = {{"mesh", {{"axes", Json::array()}}}, {"dim_shardings", Json::array()}};
  for (size_t i = 0; i < mesh.names.size(); ++i)
    named["mesh"]["axes"].push_back({{"name", mesh.names[i]}, {"size", mesh.sizes[i]}});
  RETURN_IF_ERROR(ReadPartitionSpec(scanner, mesh, named));
  if (Json manual = ManualAxes(mesh); !manual.empty()) named["manual_axes"] = std::move(manual);
  PastedSharding pasted{.members = {{"named", std::move(named)}}};
  pasted.devices = mesh.ids.empty() ? DevicesUpTo(mesh.devices) : DevicesOf(mesh.ids);
  RETURN_IF_ERROR(ReadMemoryKind(scanner, pasted.members));
  return pasted;
}

// GSPMDSharding({devices=[2,1]<=[2]}, memory_kind=device).
absl::StatusOr<PastedSharding> ReadGspmdSharding(TextScanner scanner, std::string_view text) {
  scanner.Take("GSPMDSharding");
  RETURN_IF_ERROR(scanner.Expect("("));
  const size_t start = scanner.position();
  if (!scanner.LooksAt("{")) return scanner.Expected("HLO's text, as in {replicated}");
  RETURN_IF_ERROR(SkipValue(scanner));
  const std::string_view hlo = text.substr(start, scanner.position() - start);
  PastedSharding pasted{.members = {{"hlo_text", std::string(hlo)}}};
  RETURN_IF_ERROR(ReadMemoryKind(scanner, pasted.members));
  return pasted;
}

// SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device).
absl::StatusOr<PastedSharding> ReadSingleDevice(TextScanner scanner) {
  scanner.Take("SingleDeviceSharding");
  RETURN_IF_ERROR(scanner.Expect("("));
  TakeKeyword(scanner, "device");
  RETURN_IF_ERROR(scanner.ExpectWord("a device, as in CpuDevice(id=0)").status());
  RETURN_IF_ERROR(scanner.Expect("("));
  if (!TakeKeyword(scanner, "id")) return scanner.Expected("id=");
  ASSIGN_OR_RETURN(const int64_t id, scanner.ExpectInt("the id of a device"));
  while (scanner.Take(",")) RETURN_IF_ERROR(SkipValue(scanner));
  RETURN_IF_ERROR(scanner.Expect(")"));
  PastedSharding pasted{.members = {{"hlo_text", "{replicated}"}}, .devices = DevicesOf({id})};
  RETURN_IF_ERROR(ReadMemoryKind(scanner, pasted.members));
  return pasted;
}

// ---- PyTorch

// dim=0 or 0.
absl::StatusOr<int64_t> ReadArgument(TextScanner& scanner, std::string_view name) {
  TakeKeyword(scanner, name);
  return scanner.ExpectInt(name);
}

absl::StatusOr<Json> ReadShard(TextScanner& scanner) {
  RETURN_IF_ERROR(scanner.Expect("("));
  ASSIGN_OR_RETURN(const int64_t dim, ReadArgument(scanner, "dim"));
  RETURN_IF_ERROR(scanner.Expect(")"));
  return Json{{"shard", {{"dim", dim}}}};
}

absl::StatusOr<Json> ReadStridedShard(TextScanner& scanner) {
  RETURN_IF_ERROR(scanner.Expect("("));
  ASSIGN_OR_RETURN(const int64_t dim, ReadArgument(scanner, "dim"));
  RETURN_IF_ERROR(scanner.Expect(","));
  TakeKeyword(scanner, "sf");
  ASSIGN_OR_RETURN(const int64_t factor, ReadArgument(scanner, "split_factor"));
  RETURN_IF_ERROR(scanner.Expect(")"));
  return Json{{"strided_shard", {{"dim", dim}, {"split_factor", factor}}}};
}

// Partial, Partial() or Partial(sum).
absl::StatusOr<Json> ReadPartial(TextScanner& scanner) {
  std::string op = "sum";
  if (scanner.Take("(") && !scanner.Take(")")) {
    TakeKeyword(scanner, "reduce_op");
    if (LooksAtQuote(scanner)) {
      ASSIGN_OR_RETURN(op, ReadQuoted(scanner, "a reduction"));
    } else {
      ASSIGN_OR_RETURN(op, scanner.ExpectWord("a reduction"));
    }
    RETURN_IF_ERROR(scanner.Expect(")"));
  }
  return Json{{"partial", {{"reduce_op", op}}}};
}

absl::StatusOr<Json> ReadPlacement(TextScanner& scanner) {
  if (scanner.TakeWord("Shard") || scanner.TakeWord("S")) return ReadShard(scanner);
  if (scanner.TakeWord("_StridedShard") || scanner.TakeWord("StridedShard") ||
      scanner.TakeWord("_S")) {
    return ReadStridedShard(scanner);
  }
  if (scanner.TakeWord("Replicate") || scanner.TakeWord("R")) {
    if (scanner.Take("(")) RETURN_IF_ERROR(scanner.Expect(")"));
    return Json{{"replicate", Json::object()}};
  }
  if (scanner.TakeWord("Partial") || scanner.TakeWord("_Partial") || scanner.TakeWord("P"))
    return ReadPartial(scanner);
  return scanner.Expected("Shard(DIM), Replicate(), Partial(OP) or _StridedShard(DIM, FACTOR)");
}

// (Shard(dim=0), Replicate()), the same in brackets, or one placement.
absl::StatusOr<Json> ReadPlacements(TextScanner& scanner) {
  Json placements = Json::array();
  const bool round = scanner.LooksAt("(");
  if (!round && !scanner.LooksAt("[")) {
    ASSIGN_OR_RETURN(placements.emplace_back(), ReadPlacement(scanner));
    return placements;
  }
  const std::string_view close = round ? ")" : "]";
  scanner.Take(round ? "(" : "[");
  while (!scanner.Take(close)) {
    ASSIGN_OR_RETURN(placements.emplace_back(), ReadPlacement(scanner));
    if (!scanner.Take(",") && !scanner.LooksAt(close))
      return scanner.Expected(absl::StrCat("',' or '", View(close), "'"));
  }
  return placements;
}

// The sizes of (dp=2, tp=2), which newer versions print.
absl::Status ReadMeshSizes(TextScanner& scanner, NestedIds& mesh) {
  RETURN_IF_ERROR(scanner.Expect("("));
  while (!scanner.Take(")")) {
    if (!scanner.PeekWord().empty()) {
      RETURN_IF_ERROR(scanner.ExpectWord("the name of a dimension").status());
      RETURN_IF_ERROR(scanner.Expect("="));
    }
    ASSIGN_OR_RETURN(mesh.sizes.emplace_back(), scanner.ExpectInt("the size of a dimension"));
    if (!scanner.Take(",") && !scanner.LooksAt(")")) return scanner.Expected("',' or ')'");
  }
  return absl::OkStatus();
}

// DeviceMesh('cuda', [[0, 1], [2, 3]], mesh_dim_names=('dp', 'tp')) or DeviceMesh((dp=2, tp=2), ...).
absl::StatusOr<NestedIds> ReadDeviceMesh(TextScanner& scanner) {
  NestedIds mesh;
  if (!scanner.TakeWord("DeviceMesh")) return scanner.Expected("DeviceMesh(");
  RETURN_IF_ERROR(scanner.ExpectList("(", ")", [&]() -> absl::Status {
    if (mesh.sizes.empty()) TakeKeyword(scanner, "mesh");
    const bool ids = scanner.LooksAt("[") || scanner.LooksAt("array") || scanner.LooksAt("tensor");
    if (!mesh.sizes.empty() || (!ids && !scanner.LooksAt("("))) return SkipValue(scanner);
    if (!ids) return ReadMeshSizes(scanner, mesh);
    ASSIGN_OR_RETURN(mesh, ReadIds(scanner));
    return absl::OkStatus();
  }));
  if (mesh.sizes.empty()) return scanner.Expected("the ranks of the mesh");
  return mesh;
}

// DTensorSpec(mesh=DeviceMesh(...), placements=(...), tensor_meta=...).
absl::StatusOr<PastedSharding> ReadDTensorSpec(TextScanner scanner) {
  const size_t start = scanner.position();
  scanner.TakeWord(scanner.PeekWord());
  NestedIds mesh;
  Json placements;
  RETURN_IF_ERROR(scanner.ExpectList("(", ")", [&]() -> absl::Status {
    TakeKeyword(scanner, "device_mesh") || TakeKeyword(scanner, "mesh");
    if (scanner.LooksAtWord("DeviceMesh")) {
      ASSIGN_OR_RETURN(mesh, ReadDeviceMesh(scanner));
    } else if (TakeKeyword(scanner, "placements")) {
      ASSIGN_OR_RETURN(placements, ReadPlacements(scanner));
    } else {
      return SkipValue(scanner);
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(scanner.ExpectEnd());
  if (mesh.sizes.empty() || placements.is_null())
    return scanner.Expected("mesh=DeviceMesh(...) and placements=(...)");
  ASSIGN_OR_RETURN(const int64_t count, CountDevices(mesh.sizes, scanner, start));
  PastedSharding pasted{
      .members = {
          {"dtensor", {{"mesh_shape", mesh.sizes}, {"placements", std::move(placements)}}}}};
  pasted.devices = mesh.ids.empty() ? DevicesUpTo(count) : DevicesOf(mesh.ids);
  return pasted;
}

// Placements without their mesh: all devices are along the only one.
absl::StatusOr<PastedSharding> ReadMeshless(TextScanner scanner, std::string_view text) {
  ASSIGN_OR_RETURN(Json placements, ReadPlacements(scanner));
  RETURN_IF_ERROR(scanner.ExpectEnd());
  if (placements.size() != 1) {
    return Refuse(text,
                  absl::StrCat("is placements of a DTensor without their mesh: ", kWriteDTensor));
  }
  return PastedSharding{.members = {{"dtensor", {{"placements", std::move(placements)}}}}};
}

bool LooksLikePlacements(std::string_view text) {
  TextScanner scanner("", text);
  if (!scanner.Take("(")) scanner.Take("[");
  const std::string_view word = scanner.PeekWord();
  const bool partial = word == "P";
  scanner.Take(word);
  if (!scanner.LooksAt("(")) return word == "Replicate";
  return word == "Shard" || word == "S" || word == "Replicate" || word == "R" || word == "_S" ||
         word == "Partial" || word == "_Partial" || word == "_StridedShard" ||
         word == "StridedShard" ||
         (partial && (scanner.LooksAt("(sum") || scanner.LooksAt("(avg")));
}

// ---- names

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
    return Refuse(text, absl::StrCat("is a PartitionSpec without its mesh: ", kWriteBoth));
  if (StartsWith(text, "Mesh(") || StartsWith(text, "AbstractMesh("))
    return Refuse(text, absl::StrCat("is a mesh without its spec: ", kWriteBoth));
  if (StartsWith(text, "DeviceMesh("))
    return Refuse(text, absl::StrCat("is a mesh without placements: ", kWriteDTensor));
  if (StartsWith(text, "PositionalSharding") || StartsWith(text, "PmapSharding")) {
    return Refuse(text,
                  "is a sharding of JAX whose text does not say what each device holds: write what "
                  "str(x.sharding) prints after jax.device_put(x, NamedSharding(mesh, spec))");
  }
  if (StartsWith(text, "[") || StartsWith(text, "<")) {
    return Refuse(
        text,
        "is Shardy's text without its mesh: write '#sdy.sharding<mesh<[\"x\"=4]>, [{\"x\"}, "
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

}  // namespace remesh::proto
