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
#include "service/config_metrics.h"
#include "service/folder_watch.h"
#include "service/settings.h"

namespace remesh::service {

// Settings of a file that passed every check.
struct SettingsCandidate {
  std::map<std::string, Settings::Value> values;
  // Puts those that are live in force, all or none: an error leaves everything as it was. But for
  // UNAVAILABLE: some may be in force, or come in force later, and it is tried again.
  std::function<absl::Status()> apply;
};

// Reads the settings file again when it changes, and has the values of live settings put in force
// (see Settings::Live). A file that cannot be taken changes nothing: it is logged once, and counted
// by `metrics` until the file is right again. Values of other settings are named in the log once,
// and wait for a restart. Thread-safe.
class ConfigReload {
 public:
  struct Options {
    std::string path;                               // of the settings file
    std::string text;                               // of it when `values` were read
    std::map<std::string, Settings::Value> values;  // in force
    // Checks a file's text, on the reload's thread. INVALID_ARGUMENT as Settings::Load().
    std::function<absl::StatusOr<SettingsCandidate>(const std::string& text)> parse;
    std::vector<std::string> beside;  // files whose content counts as part of the text
    std::chrono::milliseconds poll = std::chrono::seconds(10);
  };

  // `metrics` must outlive it.
  ConfigReload(Options options, ConfigMetrics& metrics);
  ~ConfigReload();

  // Reads everything again although nothing may have changed; soon, on the reload's thread.
  void Reload();

 private:
  void Run();
  // Changes when a file does.
  std::string ContentOf(const absl::StatusOr<std::string>& text) const;
  void Read();
  absl::Status Take(const absl::StatusOr<std::string>& text);
  void TellRestart(const std::map<std::string, Settings::Value>& values);

  const Options options_;
  ConfigMetrics& metrics_;
  FolderWatch watch_;
  std::atomic<bool> asked_;
  std::atomic<bool> stopping_ = false;

  // The thread's own.
  std::string seen_;               // ContentOf() the last reading
  std::string refusal_;            // why the file is not taken now; "": it is
  std::vector<std::string> wait_;  // keys that wait for a restart

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::service
