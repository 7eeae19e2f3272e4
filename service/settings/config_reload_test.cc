// SPDX-License-Identifier: Apache-2.0
#include "service/settings/config_reload.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace remesh::service {
namespace {

namespace fs = std::filesystem;

double GaugeOf(const prometheus::Registry& registry, const std::string& name) {
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    if (family.name == name) return family.metric.at(0).gauge.value;
  }
  return -1;
}

constexpr absl::Duration kPatience = absl::Seconds(30);

// A file as Kubernetes mounts it, and a process with one live setting, `live`, and one, `fixed`,
// that is not.
class ConfigReloadTest : public ::testing::Test {
 protected:
  struct Rows {
    int64_t live = 1;
    int64_t fixed = 1;
    Settings table;
    Rows() {
      table.AddInt("live", &live, "Changes.");
      table.AddInt("fixed", &fixed, "Stays.", 1);
      table.Live({"live"});
    }
  };

  ConfigReloadTest()
      : folder_(fs::path(::testing::TempDir()) /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::create_symlink("..data/config.yaml", folder_ / "config.yaml");
    Mount("live: 1\n");
  }

  // Replaces the folder that ..data leads to, in one step.
  void Mount(const std::string& text) {
    const std::string next = absl::StrCat("..", ++mounts_);
    fs::create_directory(folder_ / next);
    std::ofstream(folder_ / next / "config.yaml") << text;
    fs::create_symlink(next, folder_ / "..data_new");
    fs::rename(folder_ / "..data_new", folder_ / "..data");
  }

  void Start(std::chrono::milliseconds poll, std::vector<std::string> beside = {}) {
    reload_.emplace(ConfigReload::Options{.path = (folder_ / "config.yaml").string(),
                                          .text = "live: 1\n",
                                          .values = Rows().table.Values(),
                                          .parse = [this](auto& text) { return Parse(text); },
                                          .beside = std::move(beside),
                                          .poll = poll},
                    metrics_);
  }

  absl::StatusOr<SettingsCandidate> Parse(const std::string& text) {
    Rows rows;
    if (absl::Status status = rows.table.Load(text); !status.ok()) return status;
    return SettingsCandidate{rows.table.Values(), [this, live = rows.live]() -> absl::Status {
                               absl::MutexLock lock(&mutex_);
                               if (std::exchange(busy_, false)) {
                                 return absl::UnavailableError("the controller does not answer");
                               }
                               live_ = live;
                               ++applied_;
                               return absl::OkStatus();
                             }};
  }

  bool IsApplied() {
    absl::MutexLock lock(&mutex_);
    const auto applied = [&] { return applied_ > 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(&applied), kPatience);
  }

  bool Becomes(int64_t live) {
    absl::MutexLock lock(&mutex_);
    const auto is = [&] { return live_ == live; };
    return mutex_.AwaitWithTimeout(absl::Condition(&is), kPatience);
  }
  bool GaugeBecomes(const std::string& name, double value) {
    const absl::Time end = absl::Now() + kPatience;
    while (GaugeOf(*registry_, name) != value && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return GaugeOf(*registry_, name) == value;
  }

  static constexpr std::chrono::hours kNever{1};

  const fs::path folder_;
  int mounts_ = 0;
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  ConfigMetrics metrics_{*registry_, absl::Now()};
  absl::Mutex mutex_;
  int64_t live_ = 1;
  int applied_ = 0;
  bool busy_ = false;  // the next apply() is not answered
  std::optional<ConfigReload> reload_;
};

TEST_F(ConfigReloadTest, AFlippedLinkIsNoticedWithoutPolling) {
  Start(kNever);
  Mount("live: 2\n");
  EXPECT_TRUE(Becomes(2));
}

TEST_F(ConfigReloadTest, APollNoticesWhatNoEventTells) {
  Start(std::chrono::milliseconds(20));
  // Behind the link: no event of the watched folder.
  std::ofstream(folder_ / "..1" / "config.yaml") << "live: 3\n";
  EXPECT_TRUE(Becomes(3));
}

// Regression: a reload that met a busy controller was forgotten until the file changed again.
TEST_F(ConfigReloadTest, WhatCouldNotBeAppliedIsTriedAgain) {
  {
    absl::MutexLock lock(&mutex_);
    busy_ = true;
  }
  Start(std::chrono::milliseconds(20));
  Mount("live: 2\n");
  EXPECT_TRUE(Becomes(2));
  EXPECT_TRUE(GaugeBecomes("remesh_config_last_reload_successful", 1));
}

TEST_F(ConfigReloadTest, ABadFileChangesNothingAndIsMeteredUntilItIsRight) {
  Start(kNever);
  Mount("live: 2\nfixed: 0\n");
  EXPECT_TRUE(GaugeBecomes("remesh_config_last_reload_successful", 0));
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_EQ(live_, 1);
    EXPECT_EQ(applied_, 0);
  }
  Mount("live: 4\n");
  EXPECT_TRUE(Becomes(4));
  EXPECT_TRUE(GaugeBecomes("remesh_config_last_reload_successful", 1));
}

TEST_F(ConfigReloadTest, WhatNeedsARestartIsMeteredUntilItIsTakenBack) {
  Start(kNever);
  Mount("live: 5\nfixed: 7\n");
  EXPECT_TRUE(Becomes(5)) << "the others are taken";
  EXPECT_TRUE(GaugeBecomes("remesh_config_restart_required", 1));
  Mount("live: 5\n");
  EXPECT_TRUE(GaugeBecomes("remesh_config_restart_required", 0));
}

TEST_F(ConfigReloadTest, AHangUpReadsAgainWhatHasNotChanged) {
  Start(kNever);
  reload_->Reload();
  EXPECT_TRUE(IsApplied());
}

TEST_F(ConfigReloadTest, AFileBesideCountsAsPartOfTheText) {
  // In another folder, which is watched too.
  fs::create_directory(folder_ / "secrets");
  const std::string tokens = (folder_ / "secrets" / "tokens").string();
  std::ofstream(tokens) << "one\n";
  Start(kNever, {tokens});
  std::ofstream(tokens) << "two\n";
  EXPECT_TRUE(IsApplied());
}

}  // namespace
}  // namespace remesh::service
