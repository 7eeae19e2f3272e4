// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/commands/commands.h"

namespace remesh::client {
namespace {

struct Flag {
  std::vector<std::string> spellings;  // "-o", "--output"
  std::vector<std::string> values;     // for an enumeration; else empty
  std::string help;
  bool takes_value = false;
  std::string list;  // the command that lists its values; "": none does
};

// A command: the words that lead to it ("" for none), and the words that may follow.
struct Node {
  std::string path;
  std::vector<std::string> commands;
  std::vector<std::string> helps;  // one for each command
  std::vector<Flag> flags;
  std::vector<std::string> values;  // of an argument that is an enumeration
  std::string list;                 // the command that lists the names that are its argument
};

// The values in "TEXT:{table,json}".
std::vector<std::string> ValuesOf(const std::string& type) {
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
}

Flag FlagOf(const CLI::Option& option) {
  Flag flag{.values = ValuesOf(option.get_type_name()),
            .help = option.get_description(),
            .takes_value = option.get_items_expected_max() > 0,
            .list = ListCommandOf(option.get_description())};
  for (const std::string& name : option.get_snames()) flag.spellings.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.spellings.push_back("--" + name);
  return flag;
}

void AddNodes(const CLI::App& app, const std::string& path, std::vector<Node>& nodes) {
  Node node{.path = path};
  const auto add_flags = [&](const CLI::App& from) {
    for (const CLI::Option* option : from.get_options()) {
      const Flag flag = FlagOf(*option);
      if (flag.spellings.empty()) node.values = flag.values;
      if (flag.spellings.empty() && node.list.empty()) node.list = flag.list;
      if (!flag.spellings.empty()) node.flags.push_back(flag);
    }
  };
  add_flags(app);
  std::vector<const CLI::App*> commands;
  for (const CLI::App* sub : app.get_subcommands(std::function<bool(const CLI::App*)>())) {
    if (sub->get_name().empty()) {
      add_flags(*sub);  // a group of options, not a command
      continue;
    }
    commands.push_back(sub);
    node.commands.push_back(sub->get_name());
    node.helps.push_back(sub->get_description());
  }
  nodes.push_back(std::move(node));
  const std::string before = absl::StrCat(path, path.empty() ? "" : " ");
  for (const CLI::App* sub : commands) {
    AddNodes(*sub, before + sub->get_name(), nodes);
    for (const std::string& alias : sub->get_aliases()) AddNodes(*sub, before + alias, nodes);
  }
}

std::string Paths(const std::vector<Node>& nodes, const char* separator) {
  std::vector<std::string> paths;
  for (const Node& node : nodes) {
    if (!node.path.empty()) paths.push_back(absl::StrCat("\"", node.path, "\""));
  }
  return absl::StrJoin(paths, separator);
}

std::string WordsOf(const Node& node) {
  std::vector<std::string> words = node.commands;
  words.insert(words.end(), node.values.begin(), node.values.end());
  for (const Flag& flag : node.flags)
    words.insert(words.end(), flag.spellings.begin(), flag.spellings.end());
  return absl::StrJoin(words, " ");
}

// What a shell runs for the names that a command of ours lists.
std::string NamesFrom(const std::string& list) {
  return list.empty() ? "" : absl::StrCat("$(_remeshctl_names ", list, ")");
}

// Lines `"path:flag") words="..." ;;` for flags with values, and `"path:"*)` for everything else.
std::string BashCases(const std::vector<Node>& nodes) {
  std::string cases;
  for (const Node& node : nodes) {
    for (const Flag& flag : node.flags) {
      if (!flag.takes_value) continue;
      const std::string patterns =
          absl::StrJoin(flag.spellings, "|", [&](std::string* out, const std::string& spelling) {
            absl::StrAppend(out, "\"", node.path, ":", spelling, "\"");
          });
      absl::StrAppend(&cases, "    ", patterns, ") words=\"", absl::StrJoin(flag.values, " "),
                      NamesFrom(flag.list), "\" ;;\n");
    }
    absl::StrAppend(&cases, "    \"", node.path, ":\"*) words=\"", WordsOf(node), "\"");
    if (!node.list.empty()) {
      absl::StrAppend(&cases, "; [[ $current == -* ]] || words=\"", NamesFrom(node.list), "\"");
    }
    cases += " ;;\n";
  }
  return cases;
}

// Completes files where no word of ours fits. zsh runs this too, so the script does not use the
// name $path, which is zsh's search path, nor a letter as an index, which zsh would take for a
// modifier.
std::string Bash(const std::vector<Node>& nodes) {
  return absl::StrCat(R"(# bash: source <(remeshctl completion bash)
# Names of what the server has, of the server that the command line names.
_remeshctl_names() {
  local i server=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${COMP_WORDS[i]}" in
      --server|--context) server+=("${COMP_WORDS[i]}" "${COMP_WORDS[i+1]}") ;;
    esac
  done
  remeshctl "$@" -o name --timeout 2 "${server[@]}" 2>/dev/null
}
_remeshctl() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local at="" words="" word
  for word in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "${at:+$at }$word" in
      )",
                      Paths(nodes, "|"), R"() at="${at:+$at }$word" ;;
    esac
  done
  case "$at:$previous" in
)",
                      BashCases(nodes), R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _remeshctl remeshctl
)");
}

std::string Zsh(const std::vector<Node>& nodes) {
  return absl::StrCat(R"(#compdef remeshctl
# zsh: source <(remeshctl completion zsh)
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
)",
                      Bash(nodes));
}

std::string FishQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishFlag(const std::string& at, const Flag& flag) {
  std::string line = at;
  for (const std::string& spelling : flag.spellings) {
    absl::StrAppend(&line, spelling[1] == '-' ? " -l " : " -s ",
                    spelling.substr(spelling[1] == '-' ? 2 : 1));
  }
  if (flag.takes_value) line += flag.values.empty() && flag.list.empty() ? " -r" : " -x";
  if (!flag.list.empty()) absl::StrAppend(&line, " -a '(__remeshctl_names ", flag.list, ")'");
  if (!flag.values.empty())
    absl::StrAppend(&line, " -a ", FishQuoted(absl::StrJoin(flag.values, " ")));
  return absl::StrCat(line, " -d ", FishQuoted(flag.help), "\n");
}

std::string Fish(const std::vector<Node>& nodes) {
  std::string script = absl::StrCat(R"(# fish: remeshctl completion fish | source
set -g __remeshctl_paths )",
                                    Paths(nodes, " "), R"(
function __remeshctl_names
    remeshctl $argv -o name --timeout 2 2>/dev/null
end
function __remeshctl_at
    set -l path
    for word in (commandline -opc)[2..-1]
        if contains -- (string join -- ' ' $path $word) $__remeshctl_paths
            set path $path $word
        end
    end
    set -l at (string join -- ' ' $path)
    test "$at" = "$argv[1]"
end
)");
  for (const Node& node : nodes) {
    const std::string at =
        absl::StrCat("complete -c remeshctl -n '__remeshctl_at \"", node.path, "\"'");
    for (size_t i = 0; i < node.commands.size(); ++i) {
      absl::StrAppend(&script, at, " -f -a ", node.commands[i], " -d ", FishQuoted(node.helps[i]),
                      "\n");
    }
    if (!node.list.empty())
      absl::StrAppend(&script, at, " -f -a '(__remeshctl_names ", node.list, ")'\n");
    for (const std::string& value : node.values)
      absl::StrAppend(&script, at, " -f -a ", value, "\n");
    for (const Flag& flag : node.flags) script += FishFlag(at, flag);
  }
  return script;
}

absl::Status Run(const CLI::App& app, const std::string& shell) {
  std::vector<Node> nodes;
  AddNodes(app, "", nodes);
  std::cout << (shell == "bash" ? Bash(nodes) : shell == "zsh" ? Zsh(nodes) : Fish(nodes));
  return absl::OkStatus();
}

}  // namespace

void AddCompletion(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("completion", "Print a script that completes commands");
  sub->footer(
      "bash: source <(remeshctl completion bash)\nfish: remeshctl completion fish | source");
  auto shell = std::make_shared<std::string>();
  sub->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->transform(OneOf({"bash", "zsh", "fish"}));
  sub->callback([&command, &app, shell] { command = [&app, shell] { return Run(app, *shell); }; });
}

}  // namespace remesh::client
