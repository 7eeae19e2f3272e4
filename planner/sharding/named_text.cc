// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/named_text.h"

#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"

namespace remesh::planner {
namespace {

constexpr char kNameQuote = '\'';
constexpr std::string_view kReductionNames[] = {"sum", "max", "min"};

std::string AxesText(const Mesh& mesh, const std::vector<AxisRef>& refs, char quote) {
  return absl::StrJoin(refs, ", ", [&](std::string* out, const AxisRef& ref) {
    *out += QuotedName(mesh.axes[ref.axis].name, quote);
    if (ref.sub) absl::StrAppend(out, ":(", ref.sub->pre_size, ")", ref.sub->size);
  });
}

std::string MeshText(const Mesh& mesh) {
  if (mesh.maximal) return absl::StrCat("maximal_mesh[device_id=", *mesh.maximal, "]");
  std::string text = absl::StrCat(
      "mesh[",
      absl::StrJoin(mesh.axes, ",",
                    [](std::string* out, const MeshAxis& axis) {
                      absl::StrAppend(out, QuotedName(axis.name, kNameQuote), "=", axis.size);
                    }),
      "]");
  const TileAssignment::Iota* iota = mesh.devices.iota();
  if (iota == nullptr)
    return absl::StrCat(text, ", device_ids=(", absl::StrJoin(mesh.devices.Positions(), ","), ")");
  if (iota->reshape_dims.size() == 1) return text;
  return absl::StrCat(text, ", device_ids=([", absl::StrJoin(iota->reshape_dims, ","), "]T(",
                      absl::StrJoin(iota->transpose_perm, ","), "))");
}

// Whether the references name every axis of the mesh, each as a whole.
bool NamesAll(const Mesh& mesh, const std::vector<AxisRef>& refs) {
  for (const AxisRef& ref : refs) {
    if (ref.sub) return false;
  }
  return !refs.empty() && refs.size() == mesh.axes.size();
}

std::vector<AxisRef> AllAxes(const Mesh& mesh) {
  std::vector<AxisRef> refs;
  for (size_t a = 0; a < mesh.axes.size(); ++a)
    refs.push_back({static_cast<int64_t>(a), std::nullopt});
  return refs;
}

absl::StatusOr<Mesh> ParseMesh(TextScanner& scanner) {
  const size_t start = scanner.position();
  if (scanner.TakeWord("maximal_mesh") || scanner.TakeWord("single_device")) {
    RETURN_IF_ERROR(scanner.Expect("["));
    RETURN_IF_ERROR(scanner.Expect("device_id"));
    RETURN_IF_ERROR(scanner.Expect("="));
    ASSIGN_OR_RETURN(const int64_t device, scanner.ExpectInt("a device position"));
    RETURN_IF_ERROR(scanner.Expect("]"));
    auto mesh = MakeMaximalMesh(device);
    RETURN_IF_ERROR(scanner.Locate(start, mesh.status()));
    return mesh;
  }
  RETURN_IF_ERROR(scanner.Expect("mesh"));
  ASSIGN_OR_RETURN(std::vector<MeshAxis> axes, ParseMeshAxes(scanner, kNameQuote));
  std::vector<int64_t> ids;
  std::vector<int64_t> reshape_dims;
  if (scanner.LooksAt(",")) {
    TextScanner ahead = scanner;
    ahead.Take(",");
    if (ahead.TakeWord("device_ids")) {
      scanner = ahead;
      RETURN_IF_ERROR(scanner.Expect("="));
      if (TextScanner iota = scanner; iota.Take("(") && iota.LooksAt("[")) {
        scanner = iota;
        ASSIGN_OR_RETURN(reshape_dims, scanner.ExpectInts("[", "]", "a reshape dimension"));
        ASSIGN_OR_RETURN(ids, scanner.ExpectInts("T(", ")", "a transpose dimension"));
        RETURN_IF_ERROR(scanner.Expect(")"));
        auto mesh = MakeIotaMesh(std::move(axes), reshape_dims, ids);
        RETURN_IF_ERROR(scanner.Locate(start, mesh.status()));
        return mesh;
      }
      ASSIGN_OR_RETURN(ids, scanner.ExpectInts("(", ")", "a device position"));
      if (ids.empty()) return scanner.ErrorAt(start, "device_ids must not be empty");
    }
  }
  auto mesh = MakeMesh(std::move(axes), std::move(ids));
  RETURN_IF_ERROR(scanner.Locate(start, mesh.status()));
  return mesh;
}

absl::StatusOr<AxisRef> ParseAxis(TextScanner& scanner, const Mesh& mesh, char quote) {
  const size_t start = scanner.position();
  ASSIGN_OR_RETURN(const std::string name, scanner.ExpectQuoted(quote, "an axis name in quotes"));
  std::optional<int64_t> axis = FindAxis(mesh, name);
  if (!axis) {
    // XLA can print and read an axis's index instead of its name.
    int64_t index = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    if (error == std::errc() && end == name.data() + name.size()) axis = index;
  }
  if (!axis) return scanner.ErrorAt(start, absl::StrCat("the mesh has no axis \"", name, "\""));
  AxisRef ref{*axis, std::nullopt};
  if (scanner.Take(":")) {
    RETURN_IF_ERROR(scanner.Expect("("));
    ASSIGN_OR_RETURN(const int64_t pre_size, scanner.ExpectInt("the pre-size of a sub-axis"));
    RETURN_IF_ERROR(scanner.Expect(")"));
    ASSIGN_OR_RETURN(const int64_t size, scanner.ExpectInt("the size of a sub-axis"));
    ref.sub = AxisRef::Sub{pre_size, size};
  }
  RETURN_IF_ERROR(scanner.Locate(start, CheckAxisRef(mesh, ref)));
  return ref;
}

absl::Status ParseDims(TextScanner& scanner, NamedSharding& named) {
  return scanner.ExpectList("[", "]", [&]() -> absl::Status {
    NamedSharding::Dim dim;
    ASSIGN_OR_RETURN(dim.axes, ParseAxes(scanner, named.mesh, '\'', &dim.open));
    named.dims.push_back(std::move(dim));
    if (named.dims.size() > kTileRankMax) return scanner.Expected("fewer dimensions");
    return absl::OkStatus();
  });
}

// Parses one of replicated, unreduced and manual: with axes, or, as the first part only, without,
// which means all axes.
absl::Status ParsePart(TextScanner& scanner, bool first, NamedSharding& named) {
  const size_t start = scanner.position();
  ASSIGN_OR_RETURN(const std::string word,
                   scanner.ExpectWord("replicated, unreduced, manual or metadata"));
  std::vector<AxisRef>* refs = word == "replicated"  ? &named.replicated
                               : word == "unreduced" ? &named.unreduced
                               : word == "manual"    ? &named.manual
                                                     : nullptr;
  if (refs == nullptr) {
    return scanner.ErrorAt(
        start,
        absl::StrCat("expected replicated, unreduced, manual or metadata, found '", word, "'"));
  }
  if (!refs->empty()) return scanner.ErrorAt(start, absl::StrCat(word, " is given twice"));
  const bool has_value = scanner.Take("=");
  if (has_value && word == "unreduced") named.reduction = ParseReduction(scanner);
  if (scanner.LooksAt("{")) {
    if (!has_value) return scanner.Expected("'='");
    ASSIGN_OR_RETURN(*refs, ParseAxes(scanner, named.mesh, '\'', nullptr));
    return absl::OkStatus();
  }
  if (!first || (has_value && word != "unreduced")) return scanner.Expected("'={'");
  if (word != "replicated") *refs = AllAxes(named.mesh);
  return absl::OkStatus();
}

}  // namespace

ReductionOp ParseReduction(TextScanner& scanner) {
  for (int i = 0; i < 3; ++i) {
    if (scanner.TakeWord(kReductionNames[i])) return static_cast<ReductionOp>(i);
  }
  return ReductionOp::kSum;
}

std::string_view NameOf(ReductionOp op) { return kReductionNames[static_cast<int>(op)]; }

absl::StatusOr<std::vector<AxisRef>> ParseAxes(TextScanner& scanner, const Mesh& mesh, char quote,
                                               bool* open) {
  std::vector<AxisRef> refs;
  RETURN_IF_ERROR(scanner.ExpectList("{", "}", [&]() -> absl::Status {
    if (open != nullptr && scanner.Take("?")) {
      *open = true;
      return scanner.LooksAt("}") ? absl::OkStatus() : scanner.Expected("'}'");
    }
    ASSIGN_OR_RETURN(AxisRef ref, ParseAxis(scanner, mesh, quote));
    refs.push_back(ref);
    return absl::OkStatus();
  }));
  return refs;
}

std::string QuotedName(const std::string& name, char quote) {
  std::string text(1, quote);
  for (char c : name) {
    if (c == quote || c == '\\') text += '\\';
    text += c;
  }
  return text + quote;
}

std::string PrintUnreduced(ReductionOp op) {
  if (op == ReductionOp::kSum) return "unreduced";
  return absl::StrCat("unreduced=", std::string(NameOf(op)));
}

std::string PrintAxes(const NamedSharding& named, char quote) {
  const auto axes = [&](const std::vector<AxisRef>& refs) {
    return AxesText(named.mesh, refs, quote);
  };
  std::string text = absl::StrCat(
      "[",
      absl::StrJoin(named.dims, ", ",
                    [&](std::string* out, const NamedSharding::Dim& dim) {
                      const char* rest = !dim.open ? "" : dim.axes.empty() ? "?" : ", ?";
                      absl::StrAppend(out, "{", axes(dim.axes), rest, "}");
                    }),
      "]");
  const std::string op =
      named.reduction == ReductionOp::kSum ? "" : std::string(NameOf(named.reduction));
  if (!named.replicated.empty())
    absl::StrAppend(&text, ", replicated={", axes(named.replicated), "}");
  if (!named.unreduced.empty())
    absl::StrAppend(&text, ", unreduced=", op, "{", axes(named.unreduced), "}");
  if (!named.manual.empty()) absl::StrAppend(&text, ", manual={", axes(named.manual), "}");
  return text;
}

absl::StatusOr<std::vector<MeshAxis>> ParseMeshAxes(TextScanner& scanner, char quote) {
  const std::string what =
      absl::StrCat("an axis name in ", quote == '"' ? "double" : "single", " quotes");
  std::vector<MeshAxis> axes;
  RETURN_IF_ERROR(scanner.ExpectList("[", "]", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::string name, scanner.ExpectQuoted(quote, what));
    RETURN_IF_ERROR(scanner.Expect("="));
    ASSIGN_OR_RETURN(const int64_t size, scanner.ExpectInt("an axis size"));
    axes.push_back({std::move(name), size});
    if (axes.size() > kTileRankMax) return scanner.Expected("fewer axes");
    return absl::OkStatus();
  }));
  return axes;
}

std::string PrintTiles(const TileAssignment& tiles) {
  std::string text = absl::StrCat("[", absl::StrJoin(tiles.dims(), ","), "]");
  if (tiles.iota() == nullptr) return text + absl::StrJoin(tiles.Positions(), ",");
  absl::StrAppend(&text, "<=[", absl::StrJoin(tiles.iota()->reshape_dims, ","), "]");
  if (tiles.iota()->reshape_dims.size() == 1) return text;
  return absl::StrCat(text, "T(", absl::StrJoin(tiles.iota()->transpose_perm, ","), ")");
}

std::string PrintNamed(const NamedSharding& named) {
  const Mesh& mesh = named.mesh;
  std::string text = MeshText(mesh);
  if (mesh.maximal) return text;
  if (named.dims.empty() && named.replicated.empty()) {
    if (named.unreduced.empty() && named.manual.empty()) return "replicated";
    if (named.manual.empty() && NamesAll(mesh, named.unreduced)) {
      return PrintUnreduced(named.reduction);
    }
    if (named.unreduced.empty() && NamesAll(mesh, named.manual)) return text + ", manual";
  }
  return absl::StrCat(text, ", ", PrintAxes(named, kNameQuote));
}

bool LooksAtNamed(const TextScanner& scanner) {
  return scanner.LooksAtWord("mesh") || scanner.LooksAtWord("maximal_mesh") ||
         scanner.LooksAtWord("single_device");
}

absl::StatusOr<NamedSharding> ParseNamed(TextScanner& scanner) {
  const size_t start = scanner.position();
  NamedSharding named;
  ASSIGN_OR_RETURN(named.mesh, ParseMesh(scanner));
  bool first = true;
  while (scanner.LooksAt(",")) {
    TextScanner ahead = scanner;
    ahead.Take(",");
    if (ahead.LooksAtWord("metadata")) break;
    scanner = ahead;
    RETURN_IF_ERROR(first && scanner.LooksAt("[") ? ParseDims(scanner, named)
                                                  : ParsePart(scanner, first, named));
    first = false;
  }
  if (first && !named.mesh.maximal) return scanner.Expected("',' and a list of dimensions");
  auto canonical = Canonicalized(std::move(named));
  RETURN_IF_ERROR(scanner.Locate(start, canonical.status()));
  return canonical;
}

}  // namespace remesh::planner
