// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace remesh::client {

// Validators of flag values. They refuse a value outside the range with the flag, the value and the
// range; the parser itself would cut it to what its type holds. Use them with Option::transform(),
// because they also rewrite numbers as the parser reads them.

// A decimal whole number.
CLI::Validator WholeNumber(int64_t min = 1, int64_t max = std::numeric_limits<int64_t>::max());
// A finite number above 0.
CLI::Validator AboveZero(double max = std::numeric_limits<double>::max());
// The grammar of base/text/units.h: a bare number is seconds, bytes or bytes per second.
// A time above 0, up to 30 days: 90, 90s, 5m, 1h.
CLI::Validator Seconds();
// The same in whole nanoseconds: refuses what would round to 0, which a message takes for unset.
CLI::Validator NanosecondsOrMore();
// A size above 0: 268435456, 256MiB, 1GB.
CLI::Validator Bytes();
// A rate above 0: 2e9, 2GB/s, 100Gbit/s.
CLI::Validator Rate();
// One of `values`; of another case if `ignore_case`. Names the nearest to others.
CLI::Validator OneOf(const std::vector<std::string>& values, bool ignore_case = false);
// Any path but "". For check().
CLI::Validator FilePath();
// HOST:PORT, or one of gRPC's own forms (unix:PATH, dns:, ipv4: ...); not a URL. For check().
CLI::Validator ServerAddress();
// For commands that work without a server if none is given.
CLI::Validator ServerAddressOrNone();

// "host-b" -> "workers/host-b"; returns names that have the prefix unchanged.
std::string WithPrefix(const std::string& prefix, const std::string& name);

}  // namespace remesh::client
