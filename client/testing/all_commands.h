// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/testing/remeshctl.h"

namespace remesh::client {

inline std::vector<std::string> LinesOf(const std::string& text) {
  return absl::StrSplit(text, '\n');
}

// The verbs that the help of `path` lists; none for a command without verbs.
inline std::vector<std::string> VerbsOf(const std::string& path) {
  const std::string help = Remeshctl(absl::StrCat(path, " --help")).out;
  std::vector<std::string> verbs;
  bool listed = false;
  for (const std::string& line : LinesOf(help)) {
    if (line.empty()) listed = false;
    if (listed && line[2] != ' ') verbs.push_back(line.substr(2, line.find_first_of(" ,", 2) - 2));
    if (line == "Subcommands:") listed = true;
  }
  return verbs;
}

// The words that lead to every command of remeshctl, nouns included: "states", "states list" ...
inline std::vector<std::string> AllCommands(const std::string& below = "") {
  std::vector<std::string> all;
  for (const std::string& verb : VerbsOf(below)) {
    const std::string path = absl::StrCat(below, below.empty() ? "" : " ", verb);
    all.push_back(path);
    for (const std::string& deeper : AllCommands(path)) all.push_back(deeper);
  }
  return all;
}

}  // namespace remesh::client
