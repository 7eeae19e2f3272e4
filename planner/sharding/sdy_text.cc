// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/sdy_text.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"
#include "planner/sharding/named_text.h"
#include "planner/sharding/text_scanner.h"

namespace remesh::planner {
namespace {

constexpr char kQuote = '"';

using Meshes = std::map<std::string, Mesh>;

absl::StatusOr<std::string> ParseSymbol(TextScanner& scanner) {
  RETURN_IF_ERROR(scanner.Expect("@"));
  if (scanner.LooksAt("\"")) return scanner.ExpectQuoted(kQuote, "a mesh name");
  return scanner.ExpectWord("a mesh name");
}

// Parses <["a"=2, ...], device_ids=[...]>.
absl::StatusOr<Mesh> ParseSdyMesh(TextScanner& scanner) {
  const size_t start = scanner.position();
  RETURN_IF_ERROR(scanner.Expect("<"));
  ASSIGN_OR_RETURN(std::vector<MeshAxis> axes, ParseMeshAxes(scanner, kQuote));
  std::vector<int64_t> ids;
  if (scanner.Take(",")) {
    RETURN_IF_ERROR(scanner.Expect("device_ids"));
    RETURN_IF_ERROR(scanner.Expect("="));
    ASSIGN_OR_RETURN(ids, scanner.ExpectInts("[", "]", "a device position"));
  }
  RETURN_IF_ERROR(scanner.Expect(">"));
  auto mesh = axes.empty() && ids.size() == 1 ? MakeMaximalMesh(ids[0])
                                              : MakeMesh(std::move(axes), std::move(ids));
  RETURN_IF_ERROR(scanner.Locate(start, mesh.status()));
  return mesh;
}

absl::Status ParseDefinitions(TextScanner& scanner, Meshes& meshes) {
  while (scanner.Take("sdy.mesh")) {
    const size_t start = scanner.position();
    ASSIGN_OR_RETURN(const std::string name, ParseSymbol(scanner));
    RETURN_IF_ERROR(scanner.Expect("="));
    ASSIGN_OR_RETURN(Mesh mesh, ParseSdyMesh(scanner));
    if (!meshes.try_emplace(name, std::move(mesh)).second) {
      return scanner.ErrorAt(start, absl::StrCat("mesh @", name, " is defined twice"));
    }
  }
  return absl::OkStatus();
}

// Moves past a balanced <...>, so that definitions after the sharding can be read before it.
absl::Status SkipAngles(TextScanner& scanner) {
  int64_t depth = 0;
  do {
    if (scanner.LooksAt("\"")) {
      RETURN_IF_ERROR(scanner.ExpectQuoted(kQuote, "a name").status());
      continue;
    }
    if (scanner.AtEnd()) return scanner.Expected("'>'");
    if (scanner.LooksAt("<")) ++depth;
    if (scanner.LooksAt(">")) --depth;
    scanner.Take(std::string(1, scanner.Peek()));
  } while (depth > 0);
  return absl::OkStatus();
}

absl::StatusOr<Mesh> ParseMeshOrSymbol(TextScanner& scanner, const Meshes& meshes) {
  if (scanner.TakeWord("mesh") || scanner.Take("#sdy.mesh")) return ParseSdyMesh(scanner);
  if (!scanner.LooksAt("@")) return scanner.Expected("'@' or 'mesh'");
  const size_t start = scanner.position();
  ASSIGN_OR_RETURN(const std::string name, ParseSymbol(scanner));
  const auto mesh = meshes.find(name);
  if (mesh == meshes.end())
    return scanner.ErrorAt(
        start, absl::StrCat("mesh @", name,
                            " is not defined in this text: write mesh<[\"x\"=4]> with its "
                            "axes in place of @",
                            name, ", or sdy.mesh @", name, " = <[\"x\"=4]> before it"));
  return mesh->second;
}

// Parses a dimension's priority, as in p1.
absl::Status ParsePriority(TextScanner& scanner) {
  const std::string_view word = scanner.PeekWord();
  if (word.empty()) return absl::OkStatus();
  const bool priority = word.size() > 1 && word[0] == 'p' &&
                        word.find_first_not_of("0123456789", 1) == std::string_view::npos;
  if (!priority) return scanner.Expected("a priority such as p1, ',' or ']'");
  scanner.Take(word);
  return absl::OkStatus();
}

absl::Status ParseSdyPart(TextScanner& scanner, NamedSharding& named) {
  std::vector<AxisRef>* refs = nullptr;
  const size_t start = scanner.position();
  if (scanner.TakeWord("replicated")) {
    refs = &named.replicated;
  } else if (scanner.TakeWord("unreduced")) {
    refs = &named.unreduced;
  } else if (scanner.TakeWord("manual")) {
    refs = &named.manual;
  } else {
    return scanner.Expected("replicated, unreduced or manual");
  }
  if (!refs->empty()) return scanner.ErrorAt(start, "is given twice");
  RETURN_IF_ERROR(scanner.Expect("="));
  if (refs == &named.unreduced) named.reduction = ParseReduction(scanner);
  ASSIGN_OR_RETURN(*refs, ParseAxes(scanner, named.mesh, kQuote, nullptr));
  return absl::OkStatus();
}

// Parses <@m, [{"a"}, ...], replicated={...}>.
absl::StatusOr<NamedSharding> ParseSharding(TextScanner& scanner, const Meshes& meshes) {
  const size_t start = scanner.position();
  NamedSharding named;
  RETURN_IF_ERROR(scanner.Expect("<"));
  ASSIGN_OR_RETURN(named.mesh, ParseMeshOrSymbol(scanner, meshes));
  RETURN_IF_ERROR(scanner.Expect(","));
  RETURN_IF_ERROR(scanner.ExpectList("[", "]", [&]() -> absl::Status {
    NamedSharding::Dim dim;
    ASSIGN_OR_RETURN(dim.axes, ParseAxes(scanner, named.mesh, kQuote, &dim.open));
    named.dims.push_back(std::move(dim));
    if (named.dims.size() > kTileRankMax) return scanner.Expected("fewer dimensions");
    return ParsePriority(scanner);
  }));
  while (scanner.Take(",")) RETURN_IF_ERROR(ParseSdyPart(scanner, named));
  RETURN_IF_ERROR(scanner.Expect(">"));
  auto canonical = Canonicalized(std::move(named));
  RETURN_IF_ERROR(scanner.Locate(start, canonical.status()));
  return canonical;
}

std::string SdyMeshText(const Mesh& mesh) {
  if (mesh.maximal) return absl::StrCat("mesh<[], device_ids=[", *mesh.maximal, "]>");
  std::string text = absl::StrCat(
      "mesh<[",
      absl::StrJoin(mesh.axes, ", ",
                    [](std::string* out, const MeshAxis& axis) {
                      absl::StrAppend(out, QuotedName(axis.name, kQuote), "=", axis.size);
                    }),
      "]");
  const TileAssignment::Iota* iota = mesh.devices.iota();
  if (iota == nullptr || iota->reshape_dims.size() > 1) {
    absl::StrAppend(&text, ", device_ids=[", absl::StrJoin(mesh.devices.Positions(), ", "), "]");
  }
  return text + ">";
}

}  // namespace

absl::StatusOr<NamedSharding> ParseSdySharding(std::string_view text) {
  constexpr std::string_view kField = "sdy_text";
  if (text.size() > kTextBytesMax) {
    return InvalidField(kField, text, absl::StrCat("is longer than ", kTextBytesMax, " bytes"));
  }
  TextScanner scanner(kField, text);
  Meshes meshes;
  RETURN_IF_ERROR(ParseDefinitions(scanner, meshes));
  if (!scanner.Take("#sdy.sharding")) return scanner.Expected("'sdy.mesh' or '#sdy.sharding<'");
  if (!scanner.LooksAt("<")) return scanner.Expected("'<'");
  TextScanner behind = scanner;
  RETURN_IF_ERROR(SkipAngles(behind));
  RETURN_IF_ERROR(ParseDefinitions(behind, meshes));
  RETURN_IF_ERROR(behind.ExpectEnd());
  return ParseSharding(scanner, meshes);
}

std::string PrintSdySharding(const NamedSharding& sharding) {
  return absl::StrCat("#sdy.sharding<", SdyMeshText(sharding.mesh), ", ",
                      PrintAxes(sharding, kQuote), ">");
}

}  // namespace remesh::planner
