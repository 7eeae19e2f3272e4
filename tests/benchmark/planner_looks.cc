// SPDX-License-Identifier: Apache-2.0
// How long a cancelled question still takes a thread, in its CPU time. Prints, for the worst
// requests
// known: the longest stretches between two looks at the budget and the functions that ended them;
// then how long planning takes to return, with all that it frees, when the budget is spent at one
// look or another. Usage: planner-looks [CASE...]
#include <absl/debugging/symbolize.h>
#include <execinfo.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "planner/make_plan.h"
#include "proto/convert/plan_spec.h"
#include "service/process/heap.h"
#include "tests/benchmark/planner_cases.h"

namespace remesh::planner {
namespace {

using testing::RowsToColumnsSpec;

// Of this thread's CPU time: what the machine does besides does not count.
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

constexpr int kTimesCancelled = 16;  // at looks that are as far from each other

struct Stretch {
  double seconds = 0;
  double at = 0;      // since the beginning
  std::string ended;  // functions, innermost first
};

std::string Callers() {
  void* frames[12];
  const int count = backtrace(frames, 12);
  std::string text;
  for (int i = 0; i < count; ++i) {
    char name[256];
    if (!absl::Symbolize(frames[i], name, sizeof(name))) continue;
    const absl::string_view shown(name);
    const bool ours = shown.find("Watch") != shown.npos || shown.find("Callers") != shown.npos ||
                      shown.find("_Function_handler") != shown.npos;
    if (!ours) absl::StrAppend(&text, "      ", shown.substr(0, 120), "\n");
    if (shown.find("MakePlan") != shown.npos || shown.find("Measure") != shown.npos) break;
  }
  return text;
}

// Keeps the longest stretches between looks.
class Watch {
 public:
  void Look() {
    const double seconds = Seconds() - last_;
    ++looks_;
    if (seconds > longest_.back().seconds) {
      longest_.back() = {seconds, last_ - start_, Callers()};
      std::sort(longest_.begin(), longest_.end(),
                [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    }
    last_ = Seconds();
  }
  int64_t looks() const { return looks_; }
  void Print(const std::string& name, const std::string& outcome) const {
    std::printf("%s: %s after %.1f s, %lld looks, longest without one %.0f ms\n", name.c_str(),
                outcome.c_str(), last_ - start_, static_cast<long long>(looks_),
                1e3 * longest_.front().seconds);
    for (const Stretch& stretch : longest_) {
      std::printf("  %.0f ms at %.1f s, until\n%s", 1e3 * stretch.seconds, stretch.at,
                  stretch.ended.c_str());
    }
    std::fflush(stdout);
  }

 private:
  const double start_ = Seconds();
  double last_ = start_;
  int64_t looks_ = 0;
  std::vector<Stretch> longest_ = std::vector<Stretch>(5);
};

v1::PlanSpec WithFreeOrder(v1::PlanSpec spec) {
  spec.mutable_options()->set_free_target_order(true);
  return spec;
}

struct Case {
  std::string name;
  std::function<v1::PlanSpec()> spec;
};

std::vector<Case> Cases() {
  return {{"random-layouts", testing::RandomLayoutsSpec},
          {"all-to-all", [] { return RowsToColumnsSpec(1, 2048); }},
          {"all-to-all-1024", [] { return RowsToColumnsSpec(1, 1024); }},
          {"many-shapes", [] { return RowsToColumnsSpec(20'000, 64); }},
          {"all-to-all-free-order", [] { return WithFreeOrder(RowsToColumnsSpec(1, 1024)); }}};
}

absl::Status PlanOf(const v1::PlanSpec& spec, planner::Budget& budget) {
  auto request = proto::ToReshardRequest(spec, nullptr, budget);
  if (!request.ok()) return request.status();
  auto canonical = planner::Canonicalize(*request, budget);
  if (!canonical.ok()) return canonical.status();
  return planner::MakePlan(canonical->canonical, budget).status();
}

// Planning that is cancelled at look number `last`, from then until it has returned.
double SecondsToEnd(const v1::PlanSpec& spec, int64_t last) {
  int64_t looks = 0;
  double cancelled = 0;
  planner::Budget budget([&] {
    if (++looks < last) return absl::OkStatus();
    cancelled = Seconds();
    return absl::CancelledError("no caller waits");
  });
  PlanOf(spec, budget).IgnoreError();
  return cancelled == 0 ? 0 : Seconds() - cancelled;
}

void Measure(const Case& one) {
  const v1::PlanSpec spec = one.spec();
  Watch watch;
  planner::Budget budget([&] {
    watch.Look();
    return absl::OkStatus();
  });
  const absl::Status status = PlanOf(spec, budget);
  watch.Look();
  watch.Print(one.name, status.ok() ? "planned" : std::string(status.message().substr(0, 80)));
  std::printf("  cancelled, ends after (ms):");
  for (int time = 1; time < kTimesCancelled; ++time) {
    std::printf(" %.0f", 1e3 * SecondsToEnd(spec, watch.looks() * time / (kTimesCancelled)));
    std::fflush(stdout);
  }
  std::printf("\n");
}

}  // namespace
}  // namespace remesh::planner

int main(int argc, char** argv) {
  absl::InitializeSymbolizer(argv[0]);
  remesh::service::KeepFreedMemory();  // as the server does
  const std::vector<std::string> asked(argv + 1, argv + argc);
  for (const remesh::planner::Case& one : remesh::planner::Cases()) {
    if (asked.empty() || std::count(asked.begin(), asked.end(), one.name) > 0)
      remesh::planner::Measure(one);
  }
  return 0;
}
