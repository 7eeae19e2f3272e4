// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/save_name.h"
#include "remesh/v1/state.pb.h"

namespace remesh::client {

// What a job's states say about it.
struct JobSaves {
  struct Save {
    SaveName name;
    v1::State state;
  };
  std::string job;
  int64_t states = 0;
  int64_t bytes = 0;  // of all states
  int64_t saves = 0;
  int64_t reserved_bytes = 0;          // for the next save, which is none of the saves yet
  std::optional<Save> newest;          // by name, never by step: steps go down after a roll-back
  std::optional<Save> newest_covered;  // a restore takes it
  google::protobuf::Timestamp last_created;  // of any state: a process of the job was there then
};

// Whether hosts that are there hold all of the state.
bool IsCovered(const v1::State& state);

// Whether the Python package created the state to reserve the memory of the job's next save. It has
// no content and no step, and is never restored.
bool IsReserved(const v1::State& state);

// By job. Jobs without saves are among them.
std::map<std::string, JobSaves> SavesOf(
    const google::protobuf::RepeatedPtrField<v1::State>& states);

// In the order in which a job is deleted: saves, the oldest first, then others, and claims of
// worlds last. So what is left of a deletion that does not come to its end is the newest, and no
// world's number is used twice.
std::vector<v1::State> InOrderOfDeletion(
    const google::protobuf::RepeatedPtrField<v1::State>& states);

}  // namespace remesh::client
