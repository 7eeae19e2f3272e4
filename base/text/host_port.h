// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace remesh {

struct HostPort {
  std::string host;  // a name or an address, without brackets
  int port = 0;
};

// Splits HOST:PORT, where an IPv6 address stands in brackets. The host is not empty, and the port is
// a decimal number from 0 to 65535; nullopt for any other text.
std::optional<HostPort> SplitHostPort(const std::string& text);

}  // namespace remesh
