// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/commands/plan_files.h"
#include "client/commands/plan_filter_flags.h"
#include "client/commands/plan_watch.h"
#include "client/input.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {
namespace {

using PlanStub = v1::PlanService::Stub;

struct CacheOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::vector<std::string> tiers;
  PlanFilterFlags filter;
  PlanWatchFlags watch;
  std::filesystem::path folder;

  std::unique_ptr<PlanStub> Connect() const {
    return v1::PlanService::NewStub(ConnectServer(server));
  }
};

constexpr char kSuffix[] = ".plan";

Table Count(const char* of_what, int count) {
  Table table({of_what});
  table.AddRow({absl::StrCat(count)});
  return table;
}

std::string OfMost(const std::string& now, const std::string& most) {
  return absl::StrCat(now, " of ", most);
}

std::string Limited(int64_t now, int64_t most) {
  return most > 0 ? OfMost(absl::StrCat(now), absl::StrCat(most)) : absl::StrCat(now);
}

std::vector<std::string> Column(const v1::TierStats& tier) {
  const v1::Evictions& left = tier.evictions();
  return {Limited(tier.entries(), tier.max_entries()),
          absl::StrCat(tier.plans()),
          OfMost(FormatBytes(tier.bytes()), FormatBytes(tier.max_bytes())),
          absl::StrCat(tier.pinned()),
          absl::StrCat(tier.hits()),
          absl::StrCat(tier.isomorphic_hits()),
          absl::StrCat(tier.misses()),
          FormatSeconds(tier.compute_seconds_saved()),
          absl::StrCat(left.bytes()),
          absl::StrCat(left.entries()),
          absl::StrCat(left.age()),
          absl::StrCat(left.deleted()),
          absl::StrCat(left.flushed()),
          absl::StrCat(left.corrupt()),
          absl::StrCat(tier.errors())};
}

Table StatsTable(const v1::CacheStats& stats) {
  static const char* const kRows[] = {"entries",     "plans",          "bytes",
                                      "pinned",      "hits",           "isomorphic hits",
                                      "misses",      "planning saved", "evicted for bytes",
                                      "for entries", "for age",        "deleted",
                                      "flushed",     "corrupt",        "errors"};
  const std::vector<std::string> memory = Column(stats.memory());
  const std::vector<std::string> disk =
      stats.has_disk() ? Column(stats.disk()) : std::vector<std::string>(memory.size(), "-");
  Table table({"", "MEMORY", "DISK"});
  for (size_t i = 0; i < memory.size(); ++i) table.AddRow({kRows[i], memory[i], disk[i]});
  const v1::PrecomputeStats& ahead = stats.precompute();
  table.AddRow({"planned", absl::StrCat(stats.computations()), ""});
  table.AddRow({"planning took", FormatSeconds(stats.compute_seconds()), ""});
  table.AddRow({"waited for an equal request", absl::StrCat(stats.single_flight_waits()), ""});
  table.AddRow({"ahead: waiting", Limited(ahead.waiting(), ahead.queued()), ""});
  table.AddRow({"ahead: planned", absl::StrCat(ahead.computed()), ""});
  table.AddRow({"ahead: refused", absl::StrCat(ahead.refused()), ""});
  table.AddRow({"ahead: used", absl::StrCat(ahead.used()), ""});
  table.AddRow({"watches", absl::StrCat(stats.watches()), ""});
  return table;
}

absl::Status Stats(const CacheOptions& options) {
  ASSIGN_OR_RETURN(const v1::CacheStats stats,
                   Call(options.server, *options.Connect(), &PlanStub::GetCacheStats,
                        v1::GetCacheStatsRequest()));
  Print(options.format, stats, [&] { return StatsTable(stats); });
  return absl::OkStatus();
}

absl::Status Flush(const CacheOptions& options) {
  v1::FlushPlansRequest request;
  for (const std::string& tier : options.tiers) {
    request.add_tiers(tier == "memory" ? v1::MEMORY : v1::DISK);
  }
  ASSIGN_OR_RETURN(const v1::FlushPlansResponse flushed,
                   Call(options.server, *options.Connect(), &PlanStub::FlushPlans, request));
  Print(options.format, flushed, [&] {
    Table table({"MEMORY", "DISK", "KEPT"});
    table.AddRow({absl::StrCat(flushed.memory()), absl::StrCat(flushed.disk()),
                  absl::StrCat(flushed.kept())});
    return table;
  });
  return absl::OkStatus();
}

absl::Status Watch(const CacheOptions& options) {
  return WatchPlans(options.server, options.format, options.watch);
}

// Exports every plan; "plans/x" becomes FOLDER/x.plan.
absl::Status Export(const CacheOptions& options) {
  RETURN_IF_ERROR(CheckFolder(options.folder));
  v1::ListPlansRequest request;
  request.set_page_size(1000);
  ASSIGN_OR_RETURN(*request.mutable_filter(), ToFilter(options.filter, absl::Now()));
  const absl::StatusOr<v1::ListPlansResponse> exported =
      CallAllPages(options.server, *options.Connect(), &PlanStub::ListPlans, request);
  RETURN_IF_ERROR(AtFilterFlag(exported.status()));
  for (const v1::Plan& plan : exported->plans()) {
    ASSIGN_OR_RETURN(const std::string bytes, DownloadPlan(options.server, plan.name()));
    const std::string file = plan.name().substr(plan.name().find('/') + 1) + kSuffix;
    RETURN_IF_ERROR(WriteBytes((options.folder / file).string(), bytes));
  }
  Print(options.format, *exported, [&] { return Count("PLANS", exported->plans_size()); });
  return absl::OkStatus();
}

absl::Status Import(const CacheOptions& options) {
  RETURN_IF_ERROR(CheckFolder(options.folder));
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options.folder, error)) {
    if (entry.path().extension() == kSuffix) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  v1::ListPlansResponse imported;
  for (const std::string& file : files) {
    absl::StatusOr<v1::Plan> plan = UploadPlan(options.server, file, nullptr);
    if (!plan.ok()) {
      return MakeError(plan.status().code(), absl::StrCat(file, ": ", plan.status().message()),
                       GetErrorInfo(plan.status()));
    }
    *imported.add_plans() = *std::move(plan);
  }
  Print(options.format, imported, [&] { return Count("PLANS", imported.plans_size()); });
  return absl::OkStatus();
}

}  // namespace

void AddCache(CLI::App& app, Command& command) {
  CLI::App* cache = app.add_subcommand("cache", "The server's plan cache as a whole");
  cache->require_subcommand(1);
  const auto add = [&](const char* verb, const char* help,
                       absl::Status (*run)(const CacheOptions&)) {
    return AddVerb(*cache, command, verb, help, run);
  };
  add("stats", "Counters of the cache, tier by tier", Stats);
  const auto [flush, flushed] =
      add("flush", "Drop every plan that is neither pinned nor in use", Flush);
  flush->add_option("--tier", flushed->tiers, "memory or disk; both without it")
      ->transform(OneOf({"memory", "disk"}))
      ->allow_extra_args(false);
  const auto [watch, watched] =
      add("watch", "Print the plans that exist, then those that are new, changed or gone", Watch);
  AddPlanWatchFlags(*watch, watched->watch);
  const auto [to, exported] = add("export", "Write plans into a folder, a file each", Export);
  AddPlanFilterFlags(*to, exported->filter);
  const auto [from, imported] = add("import", "Import the plans in a folder", Import);
  for (const auto& [sub, options] :
       {std::make_pair(to, exported), std::make_pair(from, imported)}) {
    sub->add_option("FOLDER", options->folder, "Existing folder of *.plan files")->required();
  }
}

}  // namespace remesh::client
