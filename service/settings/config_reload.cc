// SPDX-License-Identifier: Apache-2.0
#include "service/settings/config_reload.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "service/log/log.h"
#include "service/process/small_file.h"
#include "service/settings/read_settings.h"

namespace remesh::service {
namespace {

std::vector<std::string> FilesOf(const ConfigReload::Options& options) {
  std::vector<std::string> files = options.beside;
  files.push_back(options.path);
  return files;
}

bool IsBlank(const std::string& text) { return absl::StripAsciiWhitespace(text).empty(); }

}  // namespace

ConfigReload::ConfigReload(Options options, ConfigMetrics& metrics)
    : options_(std::move(options)),
      metrics_(metrics),
      watch_(FilesOf(options_), options_.poll),
      // The other files were read at an unknown earlier time, so they are read again once.
      asked_(!options_.beside.empty()),
      seen_(ContentOf(options_.text)) {
  thread_ = std::thread([this] { Run(); });
}

ConfigReload::~ConfigReload() {
  stopping_ = true;
  watch_.Wake();
  thread_.join();
}

void ConfigReload::Reload() {
  asked_ = true;
  watch_.Wake();
}

void ConfigReload::Run() {
  while (!stopping_) {
    Read();  // first sees changes since `text` was read
    watch_.Wait();
  }
}

std::string ConfigReload::ContentOf(const absl::StatusOr<std::string>& text) const {
  std::string all = text.ok() ? *text : text.status().ToString();
  for (const std::string& path : options_.beside) {
    const absl::StatusOr<std::string> other = ReadSmallFile(path);
    absl::StrAppend(&all, "\n", path, "\n", other.ok() ? *other : other.status().ToString());
  }
  return all;
}

void ConfigReload::Read() {
  const bool asked = asked_.exchange(false);
  const absl::StatusOr<std::string> text = ReadSmallFile(options_.path);
  std::string content = ContentOf(text);
  if (content == seen_ && !asked) return;
  seen_ = std::move(content);
  const absl::Status taken = Take(text);
  const bool again = absl::IsUnavailable(taken);
  if (again) asked_ = true;  // at the next poll, even if the file has not changed
  // Reports each reason once: a file that stays as it is would fill the log.
  const std::string refusal(taken.message());
  const bool is_new = std::exchange(refusal_, refusal) != refusal;
  if (taken.ok()) return metrics_.Succeeded(absl::Now());
  metrics_.Failed();
  if (!is_new) return;
  LogWarning(again ? "new settings cannot be put in force now, they are tried again"
                   : "new settings are refused, the old ones stay in force",
             {{"file", options_.path}, {"error", taken}});
}

absl::Status ConfigReload::Take(const absl::StatusOr<std::string>& text) {
  RETURN_IF_ERROR(text.status());
  // Probably the file is being written or the disk is full: no one wants to reset all settings at
  // once.
  if (IsBlank(*text) && !IsBlank(options_.text)) {
    return absl::InvalidArgumentError(absl::StrCat(options_.path, " is empty"));
  }
  ASSIGN_OR_RETURN(const SettingsCandidate candidate, options_.parse(*text));
  RETURN_IF_ERROR(candidate.apply());
  LogInfo("settings read again", {{"file", options_.path}});
  ReportRestart(candidate.values);
  return absl::OkStatus();
}

void ConfigReload::ReportRestart(const std::map<std::string, Settings::Value>& values) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values) {
    if (!value.live && options_.values.at(key).text != value.text) keys.push_back(key);
  }
  metrics_.SetRestartRequired(!keys.empty());
  if (keys == std::exchange(wait_, keys) || keys.empty()) return;
  LogWarning("these settings wait for a restart",
             {{"file", options_.path}, {"keys", absl::StrJoin(keys, ",")}});
}

}  // namespace remesh::service
