// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/limits.h"
#include "planner/sharding/named_text.h"
#include "planner/sharding/text_scanner.h"

namespace remesh::planner {
namespace {

constexpr int kMetadataDepthMax = 8;

// The items of a leaf as parsed, before they are checked against each other.
struct Items {
  std::string kind;  // replicated, maximal, manual, unknown or unreduced; "" for tiles
  std::optional<ReductionOp> reduction;  // of "unreduced=max"
  std::optional<int64_t> device;
  std::optional<TileAssignment> tiles;
  bool replicate_last = false;
  std::optional<Tiled::Subgroups> subgroups;
  std::optional<ShardGroup> shard_group;
  std::optional<std::vector<OpMetadata>> metadata;
};

absl::StatusOr<SubgroupType> ParseSubgroupType(TextScanner& scanner) {
  if (scanner.TakeWord("maximal")) return SubgroupType::kMaximal;
  if (scanner.TakeWord("manual")) return SubgroupType::kManual;
  if (scanner.TakeWord("unreduced")) return SubgroupType::kUnreduced;
  if (scanner.TakeWord("replicated")) return SubgroupType::kReplicated;
  return scanner.Expected("maximal, manual, unreduced or replicated");
}

absl::StatusOr<TileAssignment> ParseTiles(TextScanner& scanner) {
  const size_t start = scanner.position();
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims,
                   scanner.ExpectInts("[", "]", "a tile dimension"));
  if (dims.empty()) return scanner.ErrorAt(start, "a tile assignment must have a dimension");
  std::vector<int64_t> numbers;
  if (!scanner.Take("<=")) {
    do {
      ASSIGN_OR_RETURN(const int64_t device, scanner.ExpectInt("a device position"));
      numbers.push_back(device);
    } while (scanner.Take(","));
    if (numbers.size() == 1) {
      return scanner.ErrorAt(start,
                             "non-maximal shardings must have more than one device assigned");
    }
    auto tiles = TileAssignment::FromList(dims, std::move(numbers));
    RETURN_IF_ERROR(scanner.Locate(start, tiles.status()));
    return tiles;
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> reshape_dims,
                   scanner.ExpectInts("[", "]", "a reshape dimension"));
  if (reshape_dims.size() == 1) {
    numbers = {0};
  } else {
    ASSIGN_OR_RETURN(numbers, scanner.ExpectInts("T(", ")", "a transpose dimension"));
  }
  auto tiles = TileAssignment::FromIota(dims, reshape_dims, numbers);
  RETURN_IF_ERROR(scanner.Locate(start, tiles.status()));
  return tiles;
}

absl::Status SkipNestedMetadata(TextScanner& scanner, int depth);

// Parses key=value, where the value is a word, string, number or {nested}. Keeps the values of the
// two keys that matter.
absl::Status ParseMetadataEntry(TextScanner& scanner, OpMetadata& entry, int depth) {
  ASSIGN_OR_RETURN(const std::string key, scanner.ExpectWord("a metadata key"));
  RETURN_IF_ERROR(scanner.Expect("="));
  if (scanner.LooksAt("\"")) {
    ASSIGN_OR_RETURN(std::string value, scanner.ExpectQuoted('"', "a string"));
    if (key == "op_type") entry.op_type = std::move(value);
    if (key == "op_name") entry.op_name = std::move(value);
    return absl::OkStatus();
  }
  if (key == "op_type" || key == "op_name") return scanner.Expected("a string in double quotes");
  if (scanner.LooksAt("{")) return SkipNestedMetadata(scanner, depth + 1);
  if (!scanner.PeekWord().empty()) return scanner.ExpectWord("a value").status();
  return scanner.ExpectInt("a string, number, word or '{'").status();
}

absl::Status SkipNestedMetadata(TextScanner& scanner, int depth) {
  if (depth > kMetadataDepthMax) return scanner.Expected("less nesting");
  RETURN_IF_ERROR(scanner.Expect("{"));
  OpMetadata ignored;
  while (!scanner.Take("}")) {
    if (scanner.AtEnd()) return scanner.Expected("'}'");
    RETURN_IF_ERROR(ParseMetadataEntry(scanner, ignored, depth));
    scanner.Take(",");
  }
  return absl::OkStatus();
}

absl::StatusOr<OpMetadata> ParseOneMetadata(TextScanner& scanner) {
  OpMetadata entry;
  RETURN_IF_ERROR(scanner.Expect("{"));
  while (!scanner.Take("}")) {
    if (scanner.AtEnd()) return scanner.Expected("'}'");
    RETURN_IF_ERROR(ParseMetadataEntry(scanner, entry, 0));
  }
  return entry;
}

absl::StatusOr<std::vector<OpMetadata>> ParseMetadata(TextScanner& scanner) {
  std::vector<OpMetadata> entries;
  TextScanner inside = scanner;
  if (inside.Take("{") && inside.LooksAt("{")) {
    RETURN_IF_ERROR(scanner.ExpectList("{", "}", [&]() -> absl::Status {
      ASSIGN_OR_RETURN(OpMetadata entry, ParseOneMetadata(scanner));
      entries.push_back(std::move(entry));
      return absl::OkStatus();
    }));
    return entries;
  }
  ASSIGN_OR_RETURN(OpMetadata entry, ParseOneMetadata(scanner));
  entries.push_back(std::move(entry));
  return entries;
}

absl::Status ParseSubgroups(TextScanner& scanner, Items& items) {
  const size_t start = scanner.position();
  if (items.subgroups) return scanner.ErrorAt(start, "last_tile_dims is given twice");
  items.subgroups.emplace();
  return scanner.ExpectList("{", "}", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const SubgroupType type, ParseSubgroupType(scanner));
    items.subgroups->push_back(type);
    return absl::OkStatus();
  });
}

absl::Status ParseShardGroup(TextScanner& scanner, ShardGroup::Type type, Items& items) {
  const size_t start = scanner.position();
  if (items.shard_group) return scanner.ErrorAt(start, "the shard group is given twice");
  ASSIGN_OR_RETURN(const int64_t id, scanner.ExpectInt("a shard group id"));
  items.shard_group = ShardGroup{type, id};
  return absl::OkStatus();
}

absl::Status ParseItemReduction(TextScanner& scanner, Items& items) {
  const std::string_view word = scanner.PeekWord();
  items.reduction = ParseReduction(scanner);
  return word == NameOf(*items.reduction) ? absl::OkStatus() : scanner.Expected("sum, max or min");
}

absl::Status ParseItem(TextScanner& scanner, Items& items) {
  const size_t start = scanner.position();
  ASSIGN_OR_RETURN(const std::string word, scanner.ExpectWord("an item of a sharding or '}'"));
  const auto twice = [&](bool given) {
    return given ? scanner.ErrorAt(start, absl::StrCat(word, " is given twice")) : absl::OkStatus();
  };
  if (word == "replicated" || word == "maximal" || word == "manual" || word == "unknown" ||
      word == "unreduced") {
    if (!items.kind.empty()) {
      return scanner.ErrorAt(
          start, absl::StrCat("a sharding is of one kind, not ", items.kind, " and ", word));
    }
    items.kind = word;
    return word == "unreduced" && scanner.Take("=") ? ParseItemReduction(scanner, items)
                                                    : absl::OkStatus();
  }
  if (word == "last_tile_dim_replicate") {
    RETURN_IF_ERROR(twice(items.replicate_last));
    items.replicate_last = true;
    return absl::OkStatus();
  }
  if (word == "shard_as") return ParseShardGroup(scanner, ShardGroup::Type::kAs, items);
  if (word == "shard_like") return ParseShardGroup(scanner, ShardGroup::Type::kLike, items);
  const bool has_value =
      word == "device" || word == "devices" || word == "last_tile_dims" || word == "metadata";
  if (!has_value)
    return scanner.ErrorAt(start,
                           absl::StrCat("expected an item of a sharding, found '", word, "'"));
  RETURN_IF_ERROR(scanner.Expect("="));
  if (word == "last_tile_dims") return ParseSubgroups(scanner, items);
  if (word == "metadata") {
    RETURN_IF_ERROR(twice(items.metadata.has_value()));
    ASSIGN_OR_RETURN(items.metadata, ParseMetadata(scanner));
  } else if (word == "device") {
    RETURN_IF_ERROR(twice(items.device.has_value()));
    ASSIGN_OR_RETURN(items.device, scanner.ExpectInt("a device position"));
  } else {
    RETURN_IF_ERROR(twice(items.tiles.has_value()));
    ASSIGN_OR_RETURN(items.tiles, ParseTiles(scanner));
  }
  return absl::OkStatus();
}

absl::StatusOr<HloSharding::Form> PlainForm(const Items& items, ReductionOp reduction) {
  if (items.device || items.tiles || items.subgroups || items.replicate_last) {
    return absl::InvalidArgumentError(
        absl::StrCat(items.kind, " shardings should not have any devices assigned"));
  }
  if (items.kind == "replicated") return Replicated{};
  if (items.kind == "manual") return Manual{};
  if (items.kind == "unknown") return Unknown{};
  return Unreduced{reduction};
}

absl::StatusOr<HloSharding::Form> FormOf(Items& items, ReductionOp reduction) {
  if (items.kind == "maximal") {
    if (!items.device || items.tiles || items.subgroups || items.replicate_last) {
      return absl::InvalidArgumentError(
          "maximal shardings should have exactly one device assigned");
    }
    if (*items.device < 0)
      return absl::InvalidArgumentError(absl::StrCat("device ", *items.device, " is negative"));
    return Maximal{*items.device};
  }
  if (!items.kind.empty()) return PlainForm(items, reduction);
  if (items.device || !items.tiles) {
    return absl::InvalidArgumentError(
        "non-maximal shardings must have a tile assignment list including dimensions");
  }
  if (items.replicate_last && items.subgroups) {
    return absl::InvalidArgumentError(
        "last_tile_dims and last_tile_dim_replicate exclude each other");
  }
  Tiled::Subgroups subgroups;
  if (items.subgroups) subgroups = *items.subgroups;
  if (items.replicate_last) subgroups = {SubgroupType::kReplicated};
  return CanonicalTiles(*std::move(items.tiles), std::move(subgroups), reduction);
}

absl::StatusOr<HloSharding> ParseNamedLeaf(TextScanner& scanner) {
  HloSharding leaf;
  ASSIGN_OR_RETURN(leaf.form, ParseNamed(scanner));
  if (scanner.Take(",")) {
    RETURN_IF_ERROR(scanner.Expect("metadata"));
    RETURN_IF_ERROR(scanner.Expect("="));
    ASSIGN_OR_RETURN(leaf.metadata, ParseMetadata(scanner));
  }
  RETURN_IF_ERROR(scanner.Expect("}"));
  return leaf;
}

// Parses a leaf, from its opening brace on.
absl::StatusOr<HloSharding> ParseLeaf(TextScanner& scanner) {
  const size_t start = scanner.position();
  if (!scanner.Take("{")) return scanner.Expected("'{' to start a sharding");
  if (LooksAtNamed(scanner)) return ParseNamedLeaf(scanner);
  Items items;
  while (!scanner.Take("}")) RETURN_IF_ERROR(ParseItem(scanner, items));
  HloSharding leaf;
  leaf.shard_group = items.shard_group;
  if (items.metadata) leaf.metadata = *std::move(items.metadata);
  const auto reduction = TakeReduction(leaf.metadata);
  RETURN_IF_ERROR(scanner.Locate(start, reduction.status()));
  if (items.reduction && *reduction != ReductionOp::kSum && *items.reduction != *reduction) {
    return scanner.ErrorAt(start, "the metadata names another reduction");
  }
  auto form = FormOf(items, items.reduction.value_or(*reduction));
  RETURN_IF_ERROR(scanner.Locate(start, form.status()));
  leaf.form = *std::move(form);
  return leaf;
}

}  // namespace

absl::StatusOr<HloSharding> ParseHloSharding(std::string_view text) {
  constexpr std::string_view kField = "hlo_text";
  if (text.size() > kTextBytesMax) {
    return InvalidField(kField, text, absl::StrCat("is longer than ", kTextBytesMax, " bytes"));
  }
  TextScanner scanner(kField, text);
  HloSharding sharding;
  TextScanner inside = scanner;
  if (inside.Take("{") && (inside.LooksAt("{") || inside.LooksAt("}"))) {
    Tuple tuple;
    RETURN_IF_ERROR(scanner.ExpectList("{", "}", [&]() -> absl::Status {
      const size_t start = scanner.position();
      ASSIGN_OR_RETURN(HloSharding leaf, ParseLeaf(scanner));
      return scanner.Locate(start, Append(std::move(leaf), tuple));
    }));
    sharding.form = std::move(tuple);
  } else {
    ASSIGN_OR_RETURN(sharding, ParseLeaf(scanner));
  }
  RETURN_IF_ERROR(scanner.ExpectEnd());
  return sharding;
}

}  // namespace remesh::planner
