// SPDX-License-Identifier: Apache-2.0
#include "proto/text/pasted/torch.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "proto/text/pasted/pieces.h"

namespace remesh::proto {
namespace {

using planner::TextScanner;
using Json = PastedJson;

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
    ASSIGN_OR_RETURN(op, ReadWord(scanner, "a reduction"));
    RETURN_IF_ERROR(scanner.Expect(")"));
  }
  return Json{{"partial", {{"reduce_op", op}}}};
}

// The sizes of (dp=2, tp=2), which newer versions print.
absl::Status ReadMeshSizes(TextScanner& scanner, NestedIds& mesh) {
  RETURN_IF_ERROR(scanner.Expect("("));
  return ReadItems(scanner, ")", [&]() -> absl::Status {
    if (!scanner.PeekWord().empty()) {
      RETURN_IF_ERROR(scanner.ExpectWord("the name of a dimension").status());
      RETURN_IF_ERROR(scanner.Expect("="));
    }
    ASSIGN_OR_RETURN(mesh.sizes.emplace_back(), scanner.ExpectInt("the size of a dimension"));
    return absl::OkStatus();
  });
}

// DeviceMesh('cuda', [[0, 1], [2, 3]], mesh_dim_names=('dp', 'tp')) or DeviceMesh((dp=2, tp=2),
// ...).
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

}  // namespace

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

absl::StatusOr<Json> ReadPlacements(TextScanner& scanner) {
  Json placements = Json::array();
  const bool round = scanner.LooksAt("(");
  if (!round && !scanner.LooksAt("[")) {
    ASSIGN_OR_RETURN(placements.emplace_back(), ReadPlacement(scanner));
    return placements;
  }
  const std::string_view close = round ? ")" : "]";
  scanner.Take(round ? "(" : "[");
  RETURN_IF_ERROR(ReadItems(scanner, close, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(placements.emplace_back(), ReadPlacement(scanner));
    return absl::OkStatus();
  }));
  return placements;
}

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

}  // namespace remesh::proto
