// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function when `expression`, an absl::Status, is not OK.
#define RETURN_IF_ERROR(expression)                                                   \
  do {                                                                                \
    if (auto remesh_status = (expression); !remesh_status.ok()) return remesh_status; \
  } while (false)

#define REMESH_CONCAT_INNER(a, b) a##b
#define REMESH_CONCAT(a, b) REMESH_CONCAT_INNER(a, b)

// ASSIGN_OR_RETURN(auto x, F()): x takes the value of F(), an absl::StatusOr, or the function
// returns its status.
#define ASSIGN_OR_RETURN(lhs, expression) \
  REMESH_ASSIGN_OR_RETURN(REMESH_CONCAT(remesh_statusor_, __LINE__), lhs, expression)
#define REMESH_ASSIGN_OR_RETURN(statusor, lhs, expression) \
  auto statusor = (expression);                            \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)
