// SPDX-License-Identifier: Apache-2.0
#include "client/commands/cache.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh {
namespace {

using Stub = v1::PlanService::Stub;

struct Options {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;

  std::unique_ptr<Stub> Connect() const { return v1::PlanService::NewStub(ConnectServer(server)); }
};

std::string OfMost(const std::string& now, const std::string& most) {
  return absl::StrCat(now, " of ", most);
}

std::string Limited(int64_t now, int64_t most) {
  return most > 0 ? OfMost(absl::StrCat(now), absl::StrCat(most)) : absl::StrCat(now);
}

std::vector<std::string> Column(const v1::TierStats& tier) {
  const v1::Evictions& left = tier.evictions();
  return {Limited(tier.entries(), tier.entries_max()),
          absl::StrCat(tier.plans()),
          OfMost(FormatBytes(tier.bytes()), FormatBytes(tier.bytes_max())),
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
  static const char* const kRows[] = {"entries",         "plans",          "bytes",
                                      "pinned",          "hits",           "isomorphic hits",
                                      "misses",          "planning saved", "evicted for bytes",
                                      "for entries",     "for age",        "deleted",
                                      "flushed",         "corrupt",        "errors"};
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

absl::Status Stats(const Options& options) {
  ASSIGN_OR_RETURN(
      const v1::CacheStats stats,
      Call(options.server, *options.Connect(), &Stub::GetCacheStats, v1::GetCacheStatsRequest()));
  Print(options.format, stats, [&] { return StatsTable(stats); });
  return absl::OkStatus();
}

}  // namespace

void AddCache(CLI::App& app, Command& command) {
  CLI::App* cache = app.add_subcommand("cache", "The server's plan cache as a whole");
  cache->require_subcommand(1);
  auto options = std::make_shared<Options>();
  CLI::App* stats = cache->add_subcommand("stats", "Counters of the cache, tier by tier");
  AddServerFlags(*stats, options->server);
  AddOutputFlag(*stats, options->format);
  stats->callback([&command, options] { command = [options] { return Stats(*options); }; });
}

}  // namespace remesh
