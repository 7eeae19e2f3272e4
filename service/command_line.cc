// SPDX-License-Identifier: Apache-2.0
#include "service/command_line.h"

#include <algorithm>
#include <string_view>

namespace remesh::service {

std::vector<std::string> WordsForCli(int argc, const char* const* argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool empty_value = word.starts_with("--") && word.find('=') == word.size() - 1;
    words.emplace_back(empty_value ? word.substr(0, word.size() - 1) : word);
    if (empty_value) words.emplace_back();
  }
  std::reverse(words.begin(), words.end());
  return words;
}

}  // namespace remesh::service
