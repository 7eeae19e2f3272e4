// SPDX-License-Identifier: Apache-2.0
#include "service/settings/units.h"

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace remesh::service {
namespace {

using Unit = std::pair<std::string_view, int64_t>;

// Largest first.
constexpr std::array<Unit, 6> kDurations = {{{"h", 3'600'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"s", 1'000'000'000},
                                             {"ms", 1'000'000},
                                             {"us", 1'000},
                                             {"ns", 1}}};
constexpr std::array<Unit, 5> kBinary = {{{"TiB", int64_t{1} << 40},
                                          {"GiB", int64_t{1} << 30},
                                          {"MiB", int64_t{1} << 20},
                                          {"KiB", int64_t{1} << 10},
                                          {"B", 1}}};
constexpr std::array<Unit, 5> kDecimal = {{{"TB", 1'000'000'000'000},
                                           {"GB", 1'000'000'000},
                                           {"MB", 1'000'000},
                                           {"kB", 1'000},
                                           {"KB", 1'000}}};
constexpr double kMax = 4.6e18;  // below 2^62

// Splits `text` into a number >= 0 and what follows it.
absl::StatusOr<std::pair<double, std::string>> Split(std::string_view text, const char* example) {
  const size_t end = text.find_first_not_of("0123456789.");
  const std::string digits(text.substr(0, end));
  double number = 0;
  if (digits.empty() || !absl::SimpleAtod(digits, &number) || !std::isfinite(number)) {
    return absl::InvalidArgumentError(absl::StrCat("must be a number and a unit, as in ", example));
  }
  const std::string unit(end == std::string_view::npos ? "" : text.substr(end));
  return std::make_pair(number, std::string(absl::StripAsciiWhitespace(unit)));
}

template <typename Units>
const Unit* Find(const Units& units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.first == name) return &unit;
  }
  return nullptr;
}

absl::StatusOr<int64_t> Scale(double number, int64_t unit) {
  const double scaled = std::round(number * static_cast<double>(unit));
  if (scaled > kMax) return absl::InvalidArgumentError("is too large");
  return static_cast<int64_t>(scaled);
}

template <typename Units>
std::string Format(const Units& units, int64_t value) {
  for (const Unit& unit : units) {
    if (value % unit.second == 0) return absl::StrCat(value / unit.second, std::string(unit.first));
  }
  return absl::StrCat(value);
}

}  // namespace

absl::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  const auto split = Split(text, "5s or 300ms");
  if (!split.ok()) return split.status();
  const auto& [number, name] = *split;
  if (number == 0 && name.empty()) return std::chrono::nanoseconds(0);
  const Unit* unit = Find(kDurations, name);
  if (unit == nullptr) return absl::InvalidArgumentError("must have a unit: h, m, s, ms, us or ns");
  const auto nanos = Scale(number, unit->second);
  if (!nanos.ok()) return nanos.status();
  return std::chrono::nanoseconds(*nanos);
}

std::string FormatDuration(std::chrono::nanoseconds duration) {
  return duration.count() == 0 ? "0" : Format(kDurations, duration.count());
}

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  const auto split = Split(text, "256MiB");
  if (!split.ok()) return split.status();
  const auto& [number, name] = *split;
  const Unit* unit = Find(kBinary, name.empty() ? "B" : name);
  if (unit == nullptr) unit = Find(kDecimal, name);
  if (unit == nullptr)
    return absl::InvalidArgumentError("must have a unit such as MiB, GiB, MB or GB, or none");
  return Scale(number, unit->second);
}

std::string FormatByteSize(int64_t bytes) { return bytes == 0 ? "0" : Format(kBinary, bytes); }

}  // namespace remesh::service
