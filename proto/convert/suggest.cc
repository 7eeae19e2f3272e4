// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/suggest.h"

#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/intermediate_sharding.h"
#include "planner/sharding/sdy_text.h"
#include "proto/convert/form.h"
#include "proto/sharding/convert_sharding.h"

namespace remesh::proto {

using planner::HloSharding;
using planner::NamedSharding;

namespace {

absl::StatusOr<HloSharding> ToTiledForm(const v1::Sharding& sharding) {
  switch (sharding.form_case()) {
    case v1::Sharding::kOpSharding:
    case v1::Sharding::kHloText:
    case v1::Sharding::kNamed:
    case v1::Sharding::kSdyText:
      break;
    default:
      return InvalidField("form", FormName(sharding),
                          "must be op_sharding, hlo_text, named or sdy_text");
  }
  ASSIGN_OR_RETURN(Form form, ParseForm(sharding));
  if (auto* named = std::get_if<NamedSharding>(&form))
    return HloSharding{.form = std::move(*named)};
  return std::get<HloSharding>(std::move(form));
}

// Writes `value` in the form of `source`.
void SetForm(const HloSharding& value, const v1::Sharding& source, v1::Sharding& message) {
  switch (source.form_case()) {
    case v1::Sharding::kOpSharding:
      message.set_op_sharding(OpShardingToBytes(value));
      return;
    case v1::Sharding::kNamed:
      *message.mutable_named() = ToProto(std::get<NamedSharding>(value.form));
      return;
    case v1::Sharding::kSdyText:
      message.set_sdy_text(planner::PrintSdySharding(std::get<NamedSharding>(value.form)));
      return;
    default:
      message.set_hlo_text(planner::PrintHloSharding(value));
  }
}

}  // namespace

absl::StatusOr<v1::SuggestIntermediateShardingResponse> SuggestIntermediateSharding(
    const v1::SuggestIntermediateShardingRequest& request) {
  const auto source = ToTiledForm(request.source());
  RETURN_IF_ERROR(AtField("source", source.status()));
  const auto target = ToTiledForm(request.target());
  RETURN_IF_ERROR(AtField("target", target.status()));
  ASSIGN_OR_RETURN(const planner::IntermediateSharding found,
                   planner::FindIntermediateSharding(*source, *target));
  v1::SuggestIntermediateShardingResponse response;
  v1::Sharding& intermediate = *response.mutable_intermediate();
  intermediate.set_memory_kind(request.source().memory_kind());
  if (request.source().has_devices()) *intermediate.mutable_devices() = request.source().devices();
  SetForm(found.sharding, request.source(), intermediate);
  for (const std::string& axis : found.replicated_axes) response.add_replicated_axes(axis);
  for (const int64_t tiles : found.source_tiles) response.add_source_tiles(tiles);
  for (const int64_t tiles : found.target_tiles) response.add_target_tiles(tiles);
  for (const int64_t tiles : found.tiles) response.add_intermediate_tiles(tiles);
  response.set_replicas(found.replicas);
  return response;
}

}  // namespace remesh::proto
