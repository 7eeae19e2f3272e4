// SPDX-License-Identifier: Apache-2.0
#include "client/commands/habits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/settings/command_line.h"

namespace remesh::client {
namespace {

using Words = std::vector<std::string>;

// Verbs and what to use for them where a noun has them, the best first.
const std::map<std::string, Words>& Verbs() {
  static const auto* const verbs =
      new std::map<std::string, Words>{{"list", {"list"}},
                                       {"ls", {"list"}},
                                       {"get", {"get", "describe"}},
                                       {"show", {"get", "describe", "show"}},
                                       {"describe", {"describe", "get"}},
                                       {"watch", {"watch"}},
                                       {"create", {"create"}},
                                       {"delete", {"delete"}},
                                       {"rm", {"delete"}},
                                       {"remove", {"delete"}},
                                       {"destroy", {"delete"}},
                                       {"add", {"create"}},
                                       {"update", {"update"}},
                                       {"edit", {"update"}},
                                       {"set", {"update"}},
                                       {"cancel", {"cancel"}},
                                       {"stop", {"cancel"}},
                                       {"abort", {"cancel"}},
                                       {"drain", {"drain"}},
                                       {"undrain", {"undrain"}},
                                       {"forget", {"forget"}},
                                       {"pin", {"pin"}},
                                       {"explain", {"explain"}},
                                       {"export", {"export"}},
                                       {"import", {"import"}}};
  return *verbs;
}

bool Has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The command of this noun, also in the singular or by another name; null: there is none.
const CLI::App* FindNoun(const CLI::App& app, const std::string& word) {
  static const auto* const others = new std::map<std::string, std::string>{
      {"node", "workers"},   {"nodes", "workers"},   {"host", "workers"},
      {"hosts", "workers"},  {"move", "executions"}, {"moves", "executions"},
      {"context", "config"}, {"contexts", "config"}};
  const auto other = others->find(word);
  const std::string name = other == others->end() ? word : other->second;
  const auto is_noun = [](const CLI::App* sub) { return !service::CommandsOf(*sub).empty(); };
  for (const CLI::App* noun : app.get_subcommands(is_noun)) {
    if (noun->get_name() == name || noun->get_name() == name + "s") return noun;
  }
  return nullptr;
}

// Whether "NAME VERB" is a command of the noun as it is, perhaps by an alias of the verb.
bool Knows(const CLI::App& noun, const std::string& name, const std::string& verb) {
  if (noun.get_name() != name) return false;
  const auto is_verb = [&](const CLI::App* sub) { return sub->check_name(verb); };
  return !noun.get_subcommands(is_verb).empty();
}

// The noun's verb for `verb`. What lists has no name after it, what shows one has.
std::string VerbOf(const CLI::App& noun, const std::string& verb, bool has_name) {
  const Words of_noun = service::CommandsOf(noun);
  const bool shows = verb == "get" || verb == "describe" || verb == "show";
  if (shows && !has_name && Has(of_noun, "list")) return "list";
  for (const std::string& candidate : Verbs().at(verb)) {
    if (Has(of_noun, candidate)) return candidate;
  }
  return "";
}

}  // namespace

void AddAliases(CLI::App& app) {
  const auto named = [](const CLI::App* sub) { return !sub->get_name().empty(); };
  for (CLI::App* noun : app.get_subcommands(named)) {
    const Words verbs = service::CommandsOf(*noun);
    const auto add = [&](const char* verb, const char* alias) {
      if (Has(verbs, verb) && !Has(verbs, alias)) noun->get_subcommand(verb)->alias(alias);
    };
    add("list", "ls");
    add("delete", "rm");
    add("get", "describe");
    add("describe", "get");
  }
}

const std::map<std::string, std::string>& WordsInstead() {
  static const auto* const words =
      new std::map<std::string, std::string>{{"move", "reshard"},
                                             {"migrate", "reshard"},
                                             {"transfer", "reshard"},
                                             {"upload", "put"},
                                             {"load", "put"},
                                             {"write", "put"},
                                             {"download", "get"},
                                             {"save", "get"},
                                             {"read", "get"},
                                             {"nodes", "workers"},
                                             {"hosts", "workers"},
                                             {"moves", "executions"},
                                             {"presets", "topology list"},
                                             {"contexts", "config get-contexts"},
                                             {"logs", "debug bundle"},
                                             {"ls", "states list"},
                                             {"list", "states list"},
                                             {"describe", "states get"},
                                             {"show", "states get"},
                                             {"delete", "states delete"},
                                             {"rm", "states delete"},
                                             {"create", "states create"},
                                             {"watch", "states watch"},
                                             {"status", "executions list"},
                                             {"-w", "--watch"},
                                             {"--follow", "--watch"},
                                             {"-f", "--file"},
                                             {"-n", "--parent"},
                                             {"--job", "--parent"},
                                             {"-j", "--parent"},
                                             {"--namespace", "--parent"},
                                             {"--address", "--server"},
                                             {"--addr", "--server"},
                                             {"--endpoint", "--server"},
                                             {"--host", "--server"},
                                             {"-s", "--server"},
                                             {"--json", "--output json"},
                                             {"--yaml", "--output yaml"},
                                             {"--wide", "--output wide"},
                                             {"--format", "--output"},
                                             {"--ca", "--tls-ca"},
                                             {"--cert", "--tls-cert"},
                                             {"--key", "--tls-key"},
                                             {"--async", "--no-wait"},
                                             {"--dry-run", "--validate-only"},
                                             {"--status", "--phase"},
                                             {"--force", "--yes"},
                                             {"-y", "--yes"},
                                             {"--target", "--targets"},
                                             {"--spec", "--file"}};
  return *words;
}

constexpr char kOnlyWatches[] =
    "only states, executions, plans, cache and worlds can be watched, as in remeshctl states watch";

constexpr char kConfigFile[] =
    "to change the server or another setting, edit its context in the config file "
    "(remeshctl config view shows the path)";

constexpr char kAsksNothing[] = "this command does not ask before it acts: leave it out";

const std::map<std::string, std::string>& NotesOnFlags() {
  static const auto* const notes = new std::map<std::string, std::string>{
      {"watch -w", "this command watches already: leave it out"},
      {"watch --watch", "this command watches already: leave it out"},
      {"-w", kOnlyWatches},
      {"--watch", kOnlyWatches},
      {"--donate",
       "servers do not support donating the source's memory during a move yet: leave it out"},
      {"config set", kConfigFile},
      {"config set-context", kConfigFile},
      {"journal restore",
       "to restore, stop the server and replace its journal with the backup (see "
       "docs/operations.md)"},
      {"--force", kAsksNothing},
      {"--yes", kAsksNothing}};
  return *notes;
}

const std::map<std::string, std::string>& ValuesOfFlags() {
  static const auto* const values = new std::map<std::string, std::string>{
      {"--array", "the name of an array (repeat --array for more)"},
      {"--context",
       "the name of a context of the config file (remeshctl config get-contexts lists them)"},
      {"--server", "the address of remesh-server, HOST:PORT"}};
  return *values;
}

std::string NounFirst(const CLI::App& app, const Words& words) {
  if (words.size() < 2) return "";
  std::string verb = words[0];
  const CLI::App* noun = FindNoun(app, words[1]);
  const bool verb_first = Verbs().contains(verb) && noun != nullptr;
  if (!verb_first) {
    verb = words[1];
    noun = FindNoun(app, words[0]);
    if (noun == nullptr || !Verbs().contains(verb) || Knows(*noun, words[0], verb)) return "";
  }
  const bool has_name = words.size() > 2 && words[2].substr(0, 1) != "-";
  const std::string of_noun = VerbOf(*noun, verb, has_name);
  if (of_noun.empty() && noun->get_name() == words[0]) return "";
  if (of_noun.empty()) return absl::StrCat(noun->get_name(), " --help");
  std::string text = absl::StrCat(noun->get_name(), " ", of_noun);
  for (size_t i = 2; i < words.size(); ++i) absl::StrAppend(&text, " ", words[i]);
  return text;
}

}  // namespace remesh::client
