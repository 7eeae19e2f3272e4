// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "service/config_reload.h"
#include "service/read_settings.h"
#include "worker/worker.h"

namespace remesh::worker {

// Keeps what Settings::Live names as the settings file has it now. Null when the process was started
// without a file. What it is given must outlive it.
std::unique_ptr<service::ConfigReload> ReloadWorkerSettings(const service::ReadResult& started,
                                                            const service::Settings& settings,
                                                            Worker& worker);

}  // namespace remesh::worker
