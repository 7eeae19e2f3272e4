// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

namespace remesh::service {

// Adds a gauge of one series without labels. `registry` must outlive it.
inline prometheus::Gauge& OneGauge(prometheus::Registry& registry, const char* name,
                                   const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

// The same for a counter.
inline prometheus::Counter& OneCounter(prometheus::Registry& registry, const char* name,
                                       const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace remesh::service
