// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "service/settings.h"

namespace remesh::service {

// How values fit together and what the files hold that they name: every error. Asks nothing of the
// network, writes nothing. NOT_FOUND for a file that cannot be read here, which is noted and no error:
// settings may be checked elsewhere than they are used.
using CheckSettings = std::function<std::vector<absl::Status>()>;

struct ReadResult {
  std::optional<int> exit_code;  // with which the program shall end now
  std::string config_path = "";  // of --config; "": none
  std::string config_text = "";  // of that file
};

// What a program can do with one file instead of what it is for.
struct OtherUse {
  std::string flag;  // "--check-journal"
  std::string help;
  std::function<int(const std::string& file)> run;  // returns the code to exit with
};

// The start of a main(): reads --config FILE, then flags, into `settings`. The program shall end
// with 0 after --help, --version, --print-config (InForce() of what file and flags set) and
// --check-config, which prints "ok" when `check` finds nothing; with 2 after a usage error or a bad
// file, with the reasons on stderr: those of --check-config all, as FILE:LINE where the file has
// the key. After one of `others` with that one's code, settings unread.
ReadResult ReadSettings(int argc, char** argv, const std::string& description, Settings& settings,
                        const CheckSettings& check, const std::vector<OtherUse>& others = {});

}  // namespace remesh::service
