// SPDX-License-Identifier: Apache-2.0
#include "base/text/host_port.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace remesh {

std::optional<HostPort> SplitHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  const std::string digits = text.substr(colon + 1);

  int port = 0;
  const bool decimal = std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit);
  if (!decimal || !absl::SimpleAtoi(digits, &port) || port > 65535) return std::nullopt;

  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return std::nullopt;
  }
  if (host.empty()) return std::nullopt;
  return HostPort{.host = std::move(host), .port = port};
}

}  // namespace remesh
