// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace remesh::client {

// What users of kubectl and other command lines type.

// Adds `ls` for list, `rm` for delete, and of get and describe the one that a command does not
// have.
void AddAliases(CLI::App& app);

// Words that remeshctl does not take, each with what to write instead.
const std::map<std::string, std::string>& WordsInstead();

// Flags that a command may not have, each with what to do.
const std::map<std::string, std::string>& NotesOnFlags();

// What the value of a flag is, where its help does not say it as a part of a sentence.
const std::map<std::string, std::string>& ValuesOfFlags();

// "get states x" -> "states get x": what to write where the verb stands before the noun, or the
// noun in the singular. "" if the words begin with no verb and noun.
std::string NounFirst(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace remesh::client
