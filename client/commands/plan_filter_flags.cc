// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plan_filter_flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/units.h"

namespace remesh::client {
namespace {

std::string ExpectationOf(const absl::Status& status) {
  return GetErrorInfo(status).metadata["expectation"];
}

// "8", "8..16", "8.." or "..16".
absl::StatusOr<v1::CountRange> ToRange(const char* flag, const std::string& text) {
  const size_t dots = text.find("..");
  const std::string least = text.substr(0, dots);
  const std::string most = dots == std::string::npos ? text : text.substr(dots + 2);
  v1::CountRange range;
  int64_t number = 0;
  bool ok = !(least.empty() && most.empty());
  if (!least.empty()) {
    ok = ok && absl::SimpleAtoi(least, &number) && number >= 0;
    range.set_min(number);
  }
  if (!most.empty()) {
    ok = ok && absl::SimpleAtoi(most, &number) && number >= range.min();
    range.set_max(number);
  }
  if (!ok)
    return InvalidField(flag, text, "must be a number, or a range such as 8..16, 8.. or ..16");
  return range;
}

absl::StatusOr<google::protobuf::Timestamp> Before(const char* flag, const std::string& text,
                                                   absl::Time now) {
  const auto age = ParseSeconds(text);
  if (!age.ok()) return InvalidField(flag, text, std::string(age.status().message()));
  const absl::Time then = now - absl::Seconds(*age);
  google::protobuf::Timestamp time;
  time.set_seconds(absl::ToUnixSeconds(then));
  time.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(then - absl::FromUnixSeconds(time.seconds()))));
  return time;
}

// A validator that refuses the values that `read` refuses, with the reason.
template <typename Read>
CLI::Validator ReadBy(Read read) {
  const auto check = [read](std::string& text) -> std::string {
    const absl::Status status = read("", text).status();
    return status.ok() ? "" : absl::StrCat("value \"", text, "\" ", ExpectationOf(status));
  };
  return CLI::Validator(check, "");
}

CLI::Validator Range() { return ReadBy(ToRange); }
CLI::Validator Age() {
  return ReadBy([](const char* flag, const std::string& text) {
    return Before(flag, text, absl::UnixEpoch());
  });
}

}  // namespace

void AddPlanFilterFlags(CLI::App& app, PlanFilterFlags& flags) {
  app.add_option("--state", flags.state, "Used by an execution of jobs/{job}/states/{state}");
  app.add_option("--source-devices", flags.source_devices, "Devices before: 8, 8..16, 8.. or ..16")
      ->check(Range());
  app.add_option("--target-devices", flags.target_devices, "Devices after")->check(Range());
  app.add_option("--source-hosts", flags.source_hosts, "Hosts before")->check(Range());
  app.add_option("--target-hosts", flags.target_hosts, "Hosts after")->check(Range());
  app.add_option("--hits", flags.hits, "How often the plan was requested: 2.. for at least twice")
      ->check(Range());
  app.add_option_function<int64_t>(
         "--hits-min", [&flags](int64_t least) { flags.hits = absl::StrCat(least, ".."); },
         "The same as --hits N..")
      ->transform(WholeNumber(0));
  app.add_option("--older", flags.older, "Computed longer ago than this: 90s, 10m, 1h")
      ->check(Age());
  app.add_option("--newer", flags.newer, "Made less long ago")->check(Age());
  app.add_option("--unused", flags.unused, "Not used for longer than this: 90s, 10m, 1h")
      ->check(Age());
  CLI::Option* pinned = app.add_flag("--pinned", flags.pinned, "Pinned plans only");
  app.add_flag("--unpinned", flags.unpinned, "Others only")->excludes(pinned);
  app.add_option("--tier", flags.tier, "memory, or disk: on disk only")
      ->transform(OneOf({"memory", "disk"}));
  app.add_option("--fingerprint", flags.fingerprint, "Prefix of the fingerprint");
}

absl::StatusOr<v1::PlanFilter> ToFilter(const PlanFilterFlags& flags, absl::Time now) {
  v1::PlanFilter filter;
  filter.set_state(flags.state);
  filter.set_fingerprint_prefix(flags.fingerprint);
  if (!flags.tier.empty()) filter.set_tier(flags.tier == "memory" ? v1::MEMORY : v1::DISK);
  if (flags.pinned || flags.unpinned) filter.set_pinned(flags.pinned);
  const struct {
    const char* flag;
    const std::string& text;
    v1::CountRange* (v1::PlanFilter::*field)();
  } ranges[] = {{"--source-devices", flags.source_devices, &v1::PlanFilter::mutable_source_devices},
                {"--target-devices", flags.target_devices, &v1::PlanFilter::mutable_target_devices},
                {"--source-hosts", flags.source_hosts, &v1::PlanFilter::mutable_source_hosts},
                {"--target-hosts", flags.target_hosts, &v1::PlanFilter::mutable_target_hosts},
                {"--hits", flags.hits, &v1::PlanFilter::mutable_hits}};
  for (const auto& range : ranges) {
    if (range.text.empty()) continue;
    ASSIGN_OR_RETURN(*(filter.*range.field)(), ToRange(range.flag, range.text));
  }
  if (!flags.older.empty()) {
    ASSIGN_OR_RETURN(*filter.mutable_created()->mutable_before(),
                     Before("--older", flags.older, now));
  }
  if (!flags.newer.empty()) {
    ASSIGN_OR_RETURN(*filter.mutable_created()->mutable_after(),
                     Before("--newer", flags.newer, now));
  }
  if (!flags.unused.empty()) {
    ASSIGN_OR_RETURN(*filter.mutable_used()->mutable_before(),
                     Before("--unused", flags.unused, now));
  }
  return filter;
}

absl::Status AtFilterFlag(const absl::Status& status) {
  constexpr char kField[] = "filter.state", kFlag[] = "--state";
  ErrorInfo info = GetErrorInfo(status);
  absl::string_view message = status.message();
  if (info.metadata["field"] != kField || !absl::ConsumePrefix(&message, kField)) return status;
  info.metadata["field"] = kFlag;
  return MakeError(status.code(), absl::StrCat(kFlag, message), info);
}

}  // namespace remesh::client
