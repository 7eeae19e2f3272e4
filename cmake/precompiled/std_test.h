// SPDX-License-Identifier: Apache-2.0
// std.h, for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled/std.h"
