// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace remesh::client {

// The names that the Python package gives a job's states; client/python/remesh/names.py has their
// meaning, tests/data/save_names.txt examples.

// A save, jobs/JOB/states/save.WORLD.NUMBER. Saves are ordered from the oldest to the newest.
struct SaveName {
  int64_t world = 0;
  int64_t number = 0;
  auto operator<=>(const SaveName&) const = default;
};

// `state`: the last part of a state's name. Nullopt: a state of another kind.
std::optional<SaveName> ParseSaveName(std::string_view state);
// The world that the state claims, as world.WORLD.
std::optional<int64_t> ParseWorldName(std::string_view state);

// The parts of jobs/JOB/states/STATE.
std::string_view JobOf(std::string_view name);
std::string_view LastPartOf(std::string_view name);

}  // namespace remesh::client
