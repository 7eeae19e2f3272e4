// SPDX-License-Identifier: Apache-2.0
#include "server/cache/disk_tier.h"

namespace remesh::server {
namespace {

class NoDiskTier : public DiskTier {
 public:
  bool present() const override { return false; }
  std::optional<CachedPlan> Find(const planner::CanonicalRequest&) override { return std::nullopt; }
  bool Has(const std::string&) override { return false; }
  std::optional<PlanFile::Name> FindName(const std::string&) override { return std::nullopt; }
  std::vector<PlanFile::Name> PinnedNames() override { return {}; }
  std::vector<PlanFile::Name> NamesAfter(absl::Time, const std::string&, int64_t) override {
    return {};
  }
  void Store(std::shared_ptr<const CachedPlan>, std::optional<PlanFile::Name>) override {}
  void StoreName(PlanFile::Name) override {}
  void UpdateNames(std::vector<PlanFile::Name>) override {}
  absl::Status Pin(PlanFile::Name) override { return absl::OkStatus(); }
  absl::Status Unpin(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<bool> RemoveName(const std::string&) override { return false; }
  absl::StatusOr<int64_t> RemoveAll(std::vector<std::string>) override { return 0; }
  void SetOnEvicted(OnEvicted) override {}
  Stats stats() override { return {}; }
  const PlanFile::Limits& limits() const override { return limits_; }

 private:
  const PlanFile::Limits limits_{};
};

}  // namespace

DiskTier& NoDisk() {
  static NoDiskTier* const none = new NoDiskTier();
  return *none;
}

}  // namespace remesh::server
