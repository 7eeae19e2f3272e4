// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "remesh/v1/admin.pb.h"
#include "service/metrics/process_metrics.h"
#include "service/metrics/readiness.h"
#include "service/settings/settings.h"

namespace remesh::server {

// Makes the answer of GetServer. Thread-safe.
class ServerDescription {
 public:
  struct Parts {
    absl::Time started;
    std::string journal_uid;
    std::string cluster_uid;
    std::shared_ptr<prometheus::Registry> registry;
    std::vector<service::ReadinessCheck> checks;
    std::map<std::string, service::Settings::Value> settings;
  };
  explicit ServerDescription(Parts parts) : parts_(std::move(parts)), settings_(parts_.settings) {}

  v1::ServerInfo Describe() const;
  // Puts the live settings among `values` into later answers; the others stay as they were.
  void SetLive(const std::map<std::string, service::Settings::Value>& values);

 private:
  std::string Metrics() const;

  const Parts parts_;
  const service::ProcessMetrics process_;
  mutable absl::Mutex mutex_;
  std::map<std::string, service::Settings::Value> settings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::server
