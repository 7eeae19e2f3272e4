// SPDX-License-Identifier: Apache-2.0
#include "client/job_saves.h"

#include <algorithm>
#include <tuple>

namespace remesh::client {
namespace {

bool IsEarlier(const google::protobuf::Timestamp& a, const google::protobuf::Timestamp& b) {
  return std::make_pair(a.seconds(), a.nanos()) < std::make_pair(b.seconds(), b.nanos());
}

void KeepNewer(const SaveName& name, const v1::State& state,
               std::optional<JobSaves::Save>& newest) {
  if (!newest || newest->name < name) newest = JobSaves::Save{.name = name, .state = state};
}

}  // namespace

bool IsCovered(const v1::State& state) {
  return state.phase() == v1::State::READY || state.phase() == v1::State::DEGRADED;
}

bool IsReserved(const v1::State& state) { return state.labels().contains("remesh-reserved"); }

std::map<std::string, JobSaves> SavesOf(
    const google::protobuf::RepeatedPtrField<v1::State>& states) {
  std::map<std::string, JobSaves> jobs;
  for (const v1::State& state : states) {
    JobSaves& job = jobs[std::string(JobOf(state.name()))];
    job.job = JobOf(state.name());
    ++job.states;
    job.bytes += state.total_bytes();
    if (IsEarlier(job.last_created, state.create_time())) job.last_created = state.create_time();
    const std::optional<SaveName> save = ParseSaveName(LastPartOf(state.name()));
    if (!save) continue;
    if (IsReserved(state)) {
      job.reserved_bytes += state.total_bytes();
      continue;
    }
    ++job.saves;
    KeepNewer(*save, state, job.newest);
    if (IsCovered(state)) KeepNewer(*save, state, job.newest_covered);
  }
  return jobs;
}

std::vector<v1::State> InOrderOfDeletion(
    const google::protobuf::RepeatedPtrField<v1::State>& states) {
  std::vector<v1::State> sorted(states.begin(), states.end());
  const auto rank = [](const v1::State& state) {
    const std::string_view last = LastPartOf(state.name());
    const std::optional<SaveName> save = ParseSaveName(last);
    const std::optional<int64_t> world = ParseWorldName(last);
    const int kind = save ? 0 : world ? 2 : 1;
    return std::make_tuple(kind, save.value_or(SaveName()), world.value_or(0), state.name());
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return sorted;
}

}  // namespace remesh::client
