// SPDX-License-Identifier: Apache-2.0
#include "client/commands/flag_values.h"

#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/nearest.h"
#include "base/text/units.h"
#include "client/connection.h"

namespace remesh::client {
namespace {

constexpr double kSecondsMax = 30 * 24 * 3600;

std::string MustBe(const std::string& text, const std::string& what) {
  return absl::StrCat("value \"", text, "\" must be ", what);
}

// "value "64mib" must have a unit ...".
std::string Refusal(const std::string& text, const absl::Status& status) {
  return absl::StrCat("value \"", text, "\" ", status.message());
}

// Above 0, and at least `least` seconds.
CLI::Validator SecondsFrom(double least, const std::string& what) {
  const auto check = [least, what](std::string& text) -> std::string {
    const absl::StatusOr<double> seconds = ParseSeconds(text);
    if (seconds.ok() && *seconds > 0 && *seconds >= least && *seconds <= kSecondsMax) {
      text = absl::StrFormat("%.17g", *seconds);
      return "";
    }
    return MustBe(
        text,
        absl::StrCat(what, " and at most 30d, in seconds or with a unit, such as 90s, 5m or 1h"));
  };
  return CLI::Validator(check, "");
}

// Whether a text is a whole number, perhaps too large for 64 bits.
bool IsDigits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

CLI::Validator WholeNumber(int64_t min, int64_t max) {
  const bool bounded = max < std::numeric_limits<int64_t>::max();
  const auto check = [=](std::string& text) -> std::string {
    int64_t number = 0;
    const bool fits = absl::SimpleAtoi(text, &number);
    if (fits && number >= min && number <= max) {
      text = absl::StrCat(number);
      return "";
    }
    const std::string least = absl::StrCat("a whole number, ", min, " or greater");
    const bool shows_max = bounded || (!fits && IsDigits(text));
    return MustBe(text, shows_max ? absl::StrCat(least, ", at most ", max) : least);
  };
  return CLI::Validator(check, "");
}

CLI::Validator AboveZero(double max) {
  const auto check = [max](std::string& text) -> std::string {
    double number = 0;
    if (absl::SimpleAtod(text, &number) && std::isfinite(number) && number > 0 && number <= max)
      return "";
    const bool bounded = max < std::numeric_limits<double>::max();
    return MustBe(
        text, absl::StrCat("a number above 0",
                           bounded ? absl::StrCat(", at most ", static_cast<int64_t>(max)) : ""));
  };
  return CLI::Validator(check, "");
}

CLI::Validator Seconds() { return SecondsFrom(0, "a duration above 0"); }

CLI::Validator NanosecondsOrMore() { return SecondsFrom(1e-9, "a duration from 1ns"); }

CLI::Validator Bytes() {
  const auto check = [](std::string& text) -> std::string {
    const absl::StatusOr<int64_t> bytes = ParseBytes(text);
    if (!bytes.ok()) return Refusal(text, bytes.status());
    if (*bytes < 1) return MustBe(text, "a size above 0, as in 256MiB");
    text = absl::StrCat(*bytes);
    return "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator Rate() {
  const auto check = [](std::string& text) -> std::string {
    const absl::StatusOr<double> rate = ParseRate(text);
    if (!rate.ok()) return Refusal(text, rate.status());
    if (*rate <= 0) return MustBe(text, "a rate above 0, as in 2GB/s");
    text = absl::StrFormat("%.17g", *rate);
    return "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator OneOf(const std::vector<std::string>& values, bool ignore_case) {
  const auto check = [values, ignore_case](std::string& text) -> std::string {
    for (const std::string& value : values) {
      if (text != value && !(ignore_case && absl::EqualsIgnoreCase(text, value))) continue;
      text = value;
      return "";
    }
    const std::string given = ignore_case ? absl::AsciiStrToUpper(text) : text;
    return MustBe(text,
                  absl::StrCat("one of ", absl::StrJoin(values, ", "), DidYouMean(given, values)));
  };
  return CLI::Validator(check, absl::StrCat("{", absl::StrJoin(values, ","), "}"));
}

CLI::Validator FilePath() {
  const auto check = [](std::string& text) {
    return text.empty() ? MustBe(text, "the path of a file") : "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator ServerAddress() {
  const auto check = [](std::string& text) -> std::string {
    if (IsServerAddress(text)) return "";
    return MustBe(text, text.find("://") == std::string::npos
                            ? "HOST:PORT, as in 10.0.0.1:7070"
                            : "HOST:PORT without a scheme, as in 10.0.0.1:7070");
  };
  return CLI::Validator(check, "");
}

CLI::Validator ServerAddressOrNone() {
  const auto check = [](std::string& text) { return text.empty() ? "" : ServerAddress()(text); };
  return CLI::Validator(check, "");
}

std::string WithPrefix(const std::string& prefix, const std::string& name) {
  return absl::StartsWith(name, prefix) ? name : prefix + name;
}

}  // namespace remesh::client
