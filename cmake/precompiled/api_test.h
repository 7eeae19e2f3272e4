// SPDX-License-Identifier: Apache-2.0
// api.h, for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled/api.h"
