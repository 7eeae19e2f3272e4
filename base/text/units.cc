// SPDX-License-Identifier: Apache-2.0
#include "base/text/units.h"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace remesh {
namespace {

using Unit = std::pair<std::string_view, int64_t>;

// Largest first.
constexpr std::array<Unit, 6> kDurations = {{{"h", 3'600'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"s", 1'000'000'000},
                                             {"ms", 1'000'000},
                                             {"us", 1'000},
                                             {"ns", 1}}};
// Read, but never written.
constexpr std::array<Unit, 2> kOtherDurations = {{{"d", 86'400'000'000'000}, {"µs", 1'000}}};
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
constexpr std::array<Unit, 6> kBits = {{{"Tbit", 1'000'000'000'000},
                                        {"Gbit", 1'000'000'000},
                                        {"Mbit", 1'000'000},
                                        {"kbit", 1'000},
                                        {"Kbit", 1'000},
                                        {"bit", 1}}};
constexpr double kMax = 4.6e18;  // below 2^62
constexpr char kBytesMax[] = "must be at most 4600000TB";
constexpr char kDurationMax[] = "must be at most 53240d";

constexpr char kBytesForm[] = "must be a number of bytes, or a number and a unit, as in 256MiB";
constexpr char kRateForm[] =
    "must be a number of bytes per second, or a number and a unit, as in 12.5GB/s or 100Gbit/s";
constexpr char kDurationForm[] = "must be a number and a unit, as in 5s or 300ms";

absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// The length of the number >= 0 that `text` begins with, its exponent included; 0: none.
size_t NumberLength(std::string_view text) {
  size_t end = text.find_first_not_of("0123456789.");
  if (end == std::string_view::npos) return text.size();
  if (end == 0 || (text[end] != 'e' && text[end] != 'E')) return end;
  size_t digits = end + 1;
  if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
  if (digits == text.size() || !IsDigit(text[digits])) return end;
  while (digits < text.size() && IsDigit(text[digits])) ++digits;
  return digits;
}

// A number >= 0 and the unit behind it.
struct Quantity {
  double number = 0;
  std::string unit;
};

// Takes the next quantity off `text`, whose unit ends before the next digit.
absl::StatusOr<Quantity> TakeQuantity(absl::string_view& text, const char* form) {
  Quantity quantity;
  text = absl::StripAsciiWhitespace(text);
  const size_t length = NumberLength({text.data(), text.size()});
  if (length == 0 || !absl::SimpleAtod(text.substr(0, length), &quantity.number) ||
      !std::isfinite(quantity.number)) {
    return absl::InvalidArgumentError(form);
  }
  text.remove_prefix(length);
  const size_t end = text.find_first_of("0123456789.");
  quantity.unit = std::string(absl::StripAsciiWhitespace(text.substr(0, end)));
  text.remove_prefix(end == absl::string_view::npos ? text.size() : end);
  return quantity;
}

absl::StatusOr<Quantity> OneQuantity(std::string_view all, const char* form) {
  absl::string_view text = AbslView(all);
  ASSIGN_OR_RETURN(Quantity quantity, TakeQuantity(text, form));
  if (!text.empty()) return absl::InvalidArgumentError(form);
  return quantity;
}

template <typename Units>
const Unit* Find(const Units& units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.first == name) return &unit;
  }
  return nullptr;
}

// "; did you mean GiB?" for "gib", "Gi" and "G".
template <typename Units>
std::string DidYouMeanUnit(const Units& units, std::string_view name) {
  if (name.empty()) return "";
  for (const Unit& unit : units) {
    const std::string spelled(unit.first);
    const absl::string_view start = absl::StripSuffix(spelled, "B");
    if (absl::EqualsIgnoreCase(spelled, AbslView(name)) ||
        absl::EqualsIgnoreCase(start, AbslView(name)))
      return absl::StrCat("; did you mean ", spelled, "?");
  }
  return "";
}

const Unit* FindBytes(std::string_view name) {
  const Unit* unit = Find(kBinary, name.empty() ? "B" : name);
  return unit != nullptr ? unit : Find(kDecimal, name);
}

std::string DidYouMeanBytes(std::string_view name) {
  const std::string decimal = DidYouMeanUnit(kDecimal, name);
  return decimal.empty() ? DidYouMeanUnit(kBinary, name) : decimal;
}

// `most` is kMax in words.
absl::StatusOr<int64_t> Scale(double number, int64_t unit, const char* most) {
  const double scaled = std::round(number * static_cast<double>(unit));
  if (scaled > kMax) return absl::InvalidArgumentError(most);
  return static_cast<int64_t>(scaled);
}

absl::StatusOr<double> ScaleRate(double number, double unit) {
  const double scaled = number * unit;
  if (!std::isfinite(scaled))
    return absl::InvalidArgumentError("must be below 1.8e308 bytes per second");
  return scaled;
}

// Drops "/s" or the "ps" of "Gbps" from the unit of a rate; false: it has neither.
bool DropPerSecond(std::string& unit) {
  absl::string_view rest = unit;
  if (absl::ConsumeSuffix(&rest, "/s")) {
    unit = std::string(rest);
    return true;
  }
  if (!absl::ConsumeSuffix(&rest, "bps")) return false;
  unit = absl::StrCat(rest, "bit");
  return true;
}

absl::Status UnknownRate(const std::string& unit) {
  const std::string known = DidYouMeanUnit(kBits, unit);
  if (absl::EndsWith(unit, "b")) {
    const absl::string_view start = absl::StripSuffix(unit, "b");
    return absl::InvalidArgumentError(absl::StrCat("has an ambiguous unit: write ", start,
                                                   "bit/s for bits or ", start, "B/s for bytes"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must have a unit such as GB/s, GiB/s or Gbit/s, or none for bytes per second",
                   known.empty() ? DidYouMeanBytes(unit) : known));
}

absl::StatusOr<int64_t> Nanoseconds(const Quantity& quantity) {
  if (quantity.number == 0 && quantity.unit.empty()) return 0;
  const Unit* unit = Find(kDurations, quantity.unit);
  if (unit == nullptr) unit = Find(kOtherDurations, quantity.unit);
  if (unit != nullptr) return Scale(quantity.number, unit->second, kDurationMax);
  return absl::InvalidArgumentError("must have a unit: d, h, m, s, ms, us or ns");
}

template <typename Units>
std::string Format(const Units& units, int64_t value) {
  for (const Unit& unit : units) {
    if (value % unit.second == 0) return absl::StrCat(value / unit.second, AbslView(unit.first));
  }
  return absl::StrCat(value);
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  ASSIGN_OR_RETURN(const Quantity quantity, OneQuantity(text, kBytesForm));
  const Unit* unit = FindBytes(quantity.unit);
  if (unit != nullptr) return Scale(quantity.number, unit->second, kBytesMax);
  return absl::InvalidArgumentError(
      absl::StrCat("must have a unit such as MiB, GiB, MB or GB, or none for bytes",
                   DidYouMeanBytes(quantity.unit)));
}

absl::StatusOr<double> ParseRate(std::string_view text) {
  ASSIGN_OR_RETURN(Quantity quantity, OneQuantity(text, kRateForm));
  if (quantity.unit.empty()) return quantity.number;
  if (!DropPerSecond(quantity.unit)) {
    const bool known = FindBytes(quantity.unit) != nullptr || Find(kBits, quantity.unit) != nullptr;
    if (!known) return UnknownRate(quantity.unit);
    return absl::InvalidArgumentError(
        absl::StrCat("must be a rate; did you mean ", AbslView(text), "/s?"));
  }
  if (const Unit* bits = Find(kBits, quantity.unit)) {
    return ScaleRate(quantity.number, static_cast<double>(bits->second) / 8);
  }
  const Unit* bytes = quantity.unit.empty() ? nullptr : FindBytes(quantity.unit);
  if (bytes == nullptr) return UnknownRate(quantity.unit);
  return ScaleRate(quantity.number, static_cast<double>(bytes->second));
}

absl::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view all) {
  absl::string_view text = AbslView(all);
  int64_t nanos = 0;
  do {
    ASSIGN_OR_RETURN(const Quantity quantity, TakeQuantity(text, kDurationForm));
    ASSIGN_OR_RETURN(const int64_t more, Nanoseconds(quantity));
    nanos += more;
    if (static_cast<double>(nanos) > kMax) return absl::InvalidArgumentError(kDurationMax);
  } while (!text.empty());
  return std::chrono::nanoseconds(nanos);
}

absl::StatusOr<double> ParseSeconds(std::string_view text) {
  const absl::StatusOr<Quantity> quantity = OneQuantity(text, kDurationForm);
  if (quantity.ok() && quantity->unit.empty()) return quantity->number;
  ASSIGN_OR_RETURN(const std::chrono::nanoseconds duration, ParseDuration(text));
  return std::chrono::duration<double>(duration).count();
}

std::string FormatDuration(std::chrono::nanoseconds duration) {
  return duration.count() == 0 ? "0" : Format(kDurations, duration.count());
}

std::string FormatByteSize(int64_t bytes) { return bytes == 0 ? "0" : Format(kBinary, bytes); }

}  // namespace remesh
