// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "service/settings/settings.h"

namespace remesh::service {

// Checks how values fit together and what the files that they name contain, and returns every
// error. Uses no network and writes nothing. NOT_FOUND for a file that cannot be read here is
// reported but is no error: settings may be checked on another machine than they are used on.
using CheckSettings = std::function<std::vector<absl::Status>()>;

struct ReadResult {
  std::optional<int> exit_code;  // set: the program must end now with this code
  std::string config_path = "";  // the path of --config; "": none
  std::string config_text = "";  // the text of that file
};

// Something a program can do with one file instead of its usual work.
struct OtherUse {
  std::string flag;  // "--check-journal"
  std::string help;
  std::function<int(const std::string& file)> run;  // returns the exit code
};

// The start of a main(): reads --config FILE, then flags, into `settings`. The program must end
// with 0 after --help, --version, --print-config (prints InForce() of the values from file and
// flags) and --check-config, which prints "ok" when `check` finds nothing. It must end with 2 after
// a usage error or a bad file, with the reasons on stderr: --check-config lists all of them, as
// FILE:LINE if the file has the key. After one of `others` it must end with the code that this
// returns; the settings are then not read.
ReadResult ReadSettings(int argc, char** argv, const std::string& description, Settings& settings,
                        const CheckSettings& check, const std::vector<OtherUse>& others = {});

}  // namespace remesh::service
