// SPDX-License-Identifier: Apache-2.0
// std.h, and what most files read that speak remesh.v1: protobuf, gRPC, the generated messages and services, flags and JSON.
#pragma once

#include <grpcpp/grpcpp.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/time_util.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cmake/precompiled/std.h"
#include "remesh/v1/local.grpc.pb.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "remesh/v1/state.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"
