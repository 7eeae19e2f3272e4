// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "service/settings/config_reload.h"
#include "service/settings/read_settings.h"
#include "worker/gpu_kind.h"
#include "worker/worker.h"

namespace remesh::worker {

// Keeps the settings that Settings::Live names equal to the settings file. Null if the process was
// started without a file. All arguments must outlive the result.
std::unique_ptr<service::ConfigReload> ReloadWorkerSettings(const service::ReadResult& started,
                                                            const service::Settings& settings,
                                                            const std::vector<GpuKind>& gpus,
                                                            Worker& worker);

}  // namespace remesh::worker
