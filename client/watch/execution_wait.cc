// SPDX-License-Identifier: Apache-2.0
#include "client/watch/execution_wait.h"

#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/interrupt_note.h"
#include "client/watch/execution_watch.h"
#include "client/watch/progress.h"

namespace remesh::client {
namespace {

std::string MayStillRun(const std::string& name) {
  return absl::StrCat(name, " may still run: see remeshctl executions get ", name);
}

// On a terminal the line would follow the progress bar.
std::string NoteOfSignal(const std::string& name) {
  return absl::StrCat(isatty(STDERR_FILENO) == 1 ? "\n" : "", "remeshctl: no longer waiting; ",
                      MayStillRun(name), "\n");
}

absl::Status OutcomeUnknown(const std::string& name, const absl::Status& why) {
  ErrorInfo info = GetErrorInfo(why);
  info.metadata["cause"] = info.reason;
  info.metadata["execution"] = name;
  info.reason = kOutcomeUnknown;
  return MakeError(why.code(),
                   absl::StrCat("no longer waiting: ", why.message(), "\n  ", MayStillRun(name)),
                   info);
}

}  // namespace

absl::StatusOr<v1::Execution> WaitForEnd(const Endpoint& server, const std::string& name,
                                         const WaitOptions& options) {
  const InterruptNote note(NoteOfSignal(name));
  if (options.prints_name) std::cerr << name << "\n";
  Progress progress;
  bool exists = options.exists;
  const auto show = [&](const v1::Execution& now) {
    exists = true;
    progress.Show(now);
  };
  absl::StatusOr<v1::Execution> ended = WatchToEnd(server, name, show, options.limit_seconds);
  return ended.ok() || !exists ? ended : OutcomeUnknown(name, ended.status());
}

}  // namespace remesh::client
