// SPDX-License-Identifier: Apache-2.0
#include "server/server_info.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>

#include "service/log/recent_log.h"
#include "service/process/version.h"

namespace remesh::server {
namespace {

constexpr size_t kMetricsBytesMax = size_t{4} << 20;

}  // namespace

v1::ServerInfo ServerDescription::Describe() const {
  v1::ServerInfo info;
  info.set_version(std::string(service::kVersion));
  info.mutable_start_time()->set_seconds(absl::ToUnixSeconds(parts_.started));
  info.set_journal_uid(parts_.journal_uid);
  info.set_cluster_uid(parts_.cluster_uid);
  const service::Readiness readiness = service::CheckReadiness(parts_.checks);
  info.set_ready(readiness.ready);
  info.set_readiness(readiness.text);
  info.set_metrics(Metrics());
  for (std::string& line : service::RecentLogLines()) info.add_log_lines(std::move(line));
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, value] : settings_) {
    v1::Setting& setting = *info.add_settings();
    setting.set_key(key);
    setting.set_value(value.text);
    setting.set_live(value.live);
  }
  return info;
}

void ServerDescription::SetLive(const std::map<std::string, service::Settings::Value>& values) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, value] : values) {
    if (value.live) settings_[key] = value;
  }
}

std::string ServerDescription::Metrics() const {
  std::vector<prometheus::MetricFamily> families = parts_.registry->Collect();
  std::ranges::move(process_.Collect(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families).substr(0, kMetricsBytesMax);
}

}  // namespace remesh::server
