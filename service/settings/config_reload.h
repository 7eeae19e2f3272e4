// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "service/metrics/config_metrics.h"
#include "service/process/folder_watch.h"
#include "service/settings/settings.h"

namespace remesh::service {

// The settings of a file that passed every check.
struct SettingsCandidate {
  std::map<std::string, Settings::Value> values;
  // Puts the live settings in force, all or none: an error leaves everything as it was. The
  // exception is UNAVAILABLE: some settings may be in force, or come into force later, and the
  // reload tries again.
  std::function<absl::Status()> apply;
};

// Reads the settings file again when it changes and puts the values of live settings in force (see
// Settings::Live). A file that is refused changes nothing: each new reason is logged once, and
// `metrics` reports the failure until the file is right again. Changed values of other settings
// wait for a restart; the log names them once. Thread-safe.
class ConfigReload {
 public:
  struct Options {
    std::string path;                               // the path of the settings file
    std::string text;                               // its text when `values` were read
    std::map<std::string, Settings::Value> values;  // in force
    // Checks a file's text, on the reload's thread. INVALID_ARGUMENT as from Settings::Load().
    std::function<absl::StatusOr<SettingsCandidate>(const std::string& text)> parse;
    std::vector<std::string> beside;  // other files whose content counts as part of the text
    std::chrono::milliseconds poll = std::chrono::seconds(10);
  };

  // `metrics` must outlive this.
  ConfigReload(Options options, ConfigMetrics& metrics);
  ~ConfigReload();

  // Reads everything again soon, on the reload's thread, even if nothing has changed.
  void Reload();

 private:
  void Run();
  // The content to compare: it changes whenever one of the files does.
  std::string ContentOf(const absl::StatusOr<std::string>& text) const;
  void Read();
  absl::Status Take(const absl::StatusOr<std::string>& text);
  void ReportRestart(const std::map<std::string, Settings::Value>& values);

  const Options options_;
  ConfigMetrics& metrics_;
  FolderWatch watch_;
  std::atomic<bool> asked_;
  std::atomic<bool> stopping_ = false;

  // Used only by the thread.
  std::string seen_;               // ContentOf() at the last reading
  std::string refusal_;            // why the file is refused now; "": it is not
  std::vector<std::string> wait_;  // keys that wait for a restart

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::service
