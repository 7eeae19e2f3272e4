// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/pathways.h"
#include "tests/fuzz/target.h"

// The request, a line of dashes, and the arrays.
REMESH_FUZZ_TEXT(text) {
  using namespace remesh;
  constexpr std::string_view kBetween = "\n---\n";
  const size_t at = text.find(kBetween);
  const auto spec =
      at == text.npos ? proto::ParsePathways(text, "[]")
                      : proto::ParsePathways(text.substr(0, at), text.substr(at + kBetween.size()));
  if (!spec.ok()) fuzz::CheckRefusal(spec.status());
}
