// SPDX-License-Identifier: Apache-2.0
#include "client/commands/examples.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace remesh::client {
namespace {

constexpr char kProgram[] = "remeshctl ";

// Two uses of a command, each without the program's name and the words that lead to the command.
struct Examples {
  const char* path;
  const char* first;
  const char* second;
};

constexpr Examples kExamples[] = {
    {"layout", "-f move.yaml",
     "--shape 4,5 --sharding '{devices=[2,2]<=[4]}' --devices 0..3 -o json"},
    {"sharding", "'{devices=[2,1,2]<=[4] last_tile_dim_replicate}'",
     R"('#sdy.sharding<mesh<["x"=4]>, [{"x"}, {}]>')"},
    {"suggest", "--source '{devices=[4,1]<=[4]}' --target '{devices=[1,4]<=[4]}'",
     "--source '{devices=[8]<=[8]}' --target '{replicated}' -o json"},
    {"topology list", "", "-o name"},
    {"topology show", "hgx-h100 --hosts 4 > topology.yaml",
     "gb200-nvl72 --hosts 36 --racks 2 --oversubscription 2"},
    {"topology get", "--server 10.0.0.1:7070", "-o json"},
    {"plan", "-f move.yaml --explain", "-f move.yaml --preset hgx-h100 --html plan.html"},
    {"plans list", "--sort hits --older 1h", "--state jobs/llama/states/params -o wide"},
    {"plans get", "plans/4f2c91 --html plan.html", "plans/4f2c91 --full -o json"},
    {"plans explain", "plans/4f2c91", "plans/4f2c91 --checkpoint-rate 5e9"},
    {"plans delete", "plans/4f2c91", "4f2c91 --server 10.0.0.1:7070"},
    {"plans pin", "plans/4f2c91", "4f2c91 -o name"},
    {"plans unpin", "plans/4f2c91", "4f2c91 -o name"},
    {"plans watch", "", "--interval 5 -o json"},
    {"plans export", "plans/4f2c91 move.plan", "plans/4f2c91 - > move.plan"},
    {"plans import", "move.plan", "move.plan -f move.yaml"},
    {"plans precompute", "--state jobs/llama/states/params --lose-one --drain-one",
     "-f move.yaml --elastic all --axis data --plus-minus 2 --dry-run"},
    {"cache stats", "", "-o json"},
    {"cache flush", "", "--tier disk"},
    {"cache watch", "", "--state jobs/llama/states/params"},
    {"cache export", "plans/", "plans/ --pinned"},
    {"cache import", "plans/", "plans/ --server 10.0.0.1:7070"},
    {"states list", "--parent jobs/llama --phase LOST", "-o name"},
    {"states get", "jobs/llama/states/params", "jobs/llama/states/params -o json"},
    {"states create", "-f state.yaml", "-f state.yaml jobs/llama/states/params --validate-only"},
    {"states update", "jobs/llama/states/params --step 1200",
     "jobs/llama/states/params --label run=7 --label kind=ema"},
    {"states delete", "jobs/llama/states/params", "jobs/llama/states/params --no-wait"},
    {"states watch", "jobs/llama/states/params", "jobs/llama/states/params -o json"},
    {"jobs list", "", "-o wide"},
    {"jobs delete", "llama", "jobs/llama --yes"},
    {"jobs resize", "llama -n 6", "jobs/llama --size 6 --world main"},
    {"jobs describe", "llama", "jobs/llama -o json"},
    {"put", "jobs/llama/states/params in/ --write 1200",
     "jobs/llama/states/params in/ --array embed --no-seal"},
    {"get", "jobs/llama/states/params out/",
     "jobs/llama/states/params out/ --array embed --generation 3"},
    {"seal", "jobs/llama/states/params", "jobs/llama/states/params --write 1200"},
    {"unseal", "jobs/llama/states/params --write 1300",
     "jobs/llama/states/params --array embed --write 1300"},
    {"reshard", "jobs/llama/states/params -f targets.yaml",
     "jobs/llama/states/params --plan plans/4f2c91 --timeout 60"},
    {"executions list", "--parent jobs/llama --phase FAILED", "-o wide"},
    {"executions get", "jobs/llama/executions/7b1e", "jobs/llama/executions/7b1e -o yaml"},
    {"executions watch", "jobs/llama/executions/7b1e", "jobs/llama/executions/7b1e --timeout 60"},
    {"executions cancel", "jobs/llama/executions/7b1e", "jobs/llama/executions/7b1e -o name"},
    {"executions resolve", "jobs/llama/executions/7b1e --keep-source",
     "jobs/llama/executions/7b1e --keep-source -o json"},
    {"workers list", "--phase LOST", "-o wide"},
    {"workers get", "host-b", "workers/host-b -o yaml"},
    {"workers drain", "host-b", "workers/host-b --server 10.0.0.1:7070"},
    {"workers undrain", "host-b", "workers/host-b --server 10.0.0.1:7070"},
    {"workers forget", "host-b", "workers/host-b --server 10.0.0.1:7070"},
    {"workers reset", "host-b", "workers/host-b --server 10.0.0.1:7070"},
    {"workers owed", "", "-o json"},
    {"workers discard", "host-b jobs/llama/states/params 5f0c2a",
     "host-b jobs/llama/states/params 5f0c2a --yes"},
    {"worlds list", "", "--parent jobs/llama --phase FORMING"},
    {"worlds describe", "jobs/llama/worlds/main", "jobs/llama/worlds/main -o json"},
    {"worlds watch", "", "--parent jobs/llama --interval 5"},
    {"journal backup", "journal.db", "journal.db --force"},
    {"debug bundle", "", "-o bundle.tar.gz"},
    {"config view", "", "| grep server"},
    {"config get-contexts", "", "| grep prod"},
    {"config use-context", "prod", "staging"},
    {"demo", "--small", "--small --keep"},
    {"completion", "bash > ~/.local/share/bash-completion/completions/remeshctl", "fish | source"},
    {"help", "plans get", "reshard"},
    {"version", "", "| cut -d . -f 1"},
};

const Examples* Find(const std::string& path) {
  const auto found = std::find_if(std::begin(kExamples), std::end(kExamples),
                                  [&](const Examples& one) { return one.path == path; });
  return found == std::end(kExamples) ? nullptr : found;
}

std::string LineOf(const std::string& path, const std::string& arguments) {
  return absl::StrCat(kProgram, path, arguments.empty() ? "" : " ", arguments);
}

std::vector<CLI::App*> CommandsBelow(CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); });
}

std::string PathBelow(const std::string& path, const CLI::App& app) {
  return absl::StrCat(path, path.empty() ? "" : " ", app.get_name());
}

// The lines that the help of this command shows: its own, or those of its first two verbs.
std::vector<std::string> LinesOf(CLI::App& app, const std::string& path) {
  if (const Examples* own = Find(path))
    return {LineOf(path, own->first), LineOf(path, own->second)};
  std::vector<std::string> lines;
  for (const CLI::App* verb : CommandsBelow(app)) {
    const Examples* of_verb = Find(PathBelow(path, *verb));
    if (of_verb == nullptr || lines.size() == 2) continue;
    lines.push_back(LineOf(of_verb->path, of_verb->first));
    if (CommandsBelow(app).size() == 1) lines.push_back(LineOf(of_verb->path, of_verb->second));
  }
  return lines;
}

void AddBelow(CLI::App& app, const std::string& path) {
  for (CLI::App* sub : CommandsBelow(app)) {
    const std::string of_sub = PathBelow(path, *sub);
    std::string footer = "Examples:\n";
    for (const std::string& line : LinesOf(*sub, of_sub))
      absl::StrAppend(&footer, "  ", line, "\n");
    const std::string own = sub->get_footer();
    sub->footer(own.empty() ? footer : absl::StrCat(footer, "\n", own));
    AddBelow(*sub, of_sub);
  }
}

}  // namespace

void AddExamples(CLI::App& app) { AddBelow(app, ""); }

std::string ExampleOf(const std::string& path) {
  const Examples* examples = Find(path);
  return examples == nullptr ? "" : LineOf(path, examples->first);
}

}  // namespace remesh::client
