// SPDX-License-Identifier: Apache-2.0
#include "proto/text/pasted/jax.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "proto/text/pasted/pieces.h"

namespace remesh::proto {
namespace {

using planner::TextScanner;
using Json = PastedJson;

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
  RETURN_IF_ERROR(ReadItems(scanner, ")", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(words.emplace_back(), ReadWord(scanner, "a name"));
    return absl::OkStatus();
  }));
  return words;
}

absl::StatusOr<std::vector<int64_t>> ReadSizes(TextScanner& scanner) {
  std::vector<int64_t> sizes;
  RETURN_IF_ERROR(scanner.Expect("("));
  RETURN_IF_ERROR(ReadItems(scanner, ")", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(sizes.emplace_back(), scanner.ExpectInt("the size of an axis"));
    return absl::OkStatus();
  }));
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
  return scanner.ErrorAt(at, absl::StrCat("the mesh has no axis '", name, "'; its axes are '",
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
  RETURN_IF_ERROR(ReadItems(scanner, close, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(axes.emplace_back(), ReadAxis(scanner, mesh));
    return absl::OkStatus();
  }));
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
  return ReadItems(scanner, ")", [&] { return ReadSpecArgument(scanner, mesh, named); });
}

// The arguments behind those that were read; takes the closing parenthesis.
absl::Status ReadMemoryKind(TextScanner& scanner, Json& members) {
  while (scanner.Take(",")) {
    if (!TakeKeyword(scanner, "memory_kind")) {
      RETURN_IF_ERROR(SkipValue(scanner));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string kind, ReadWord(scanner, "a kind of memory"));
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

}  // namespace

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

}  // namespace remesh::proto
