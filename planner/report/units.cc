// SPDX-License-Identifier: Apache-2.0
#include "planner/report/units.h"

#include "absl/strings/str_format.h"
#include "absl/types/span.h"

namespace remesh::planner {
namespace {

std::string Scaled(double value, absl::Span<const char* const> units) {
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.4g %s", value, units[unit]);
}

}  // namespace

std::string BytesText(double bytes) {
  return Scaled(bytes, {"B", "kB", "MB", "GB", "TB", "PB", "EB"});
}

std::string SecondsText(double seconds) {
  if (seconds == 0 || seconds >= 1) return absl::StrFormat("%.4g s", seconds);
  return Scaled(seconds * 1e9, {"ns", "µs", "ms", "s"});
}

}  // namespace remesh::planner
