// SPDX-License-Identifier: Apache-2.0
#include "base/text/host_port.h"

#include <gtest/gtest.h>

namespace remesh {
namespace {

TEST(HostPortTest, SplitsWhatHasAHostAndAPort) {
  const struct {
    const char* text;
    const char* host;
    int port;
  } cases[] = {{"10.0.0.1:80", "10.0.0.1", 80},
               {"a.example:0", "a.example", 0},
               {"[fd00::1]:65535", "fd00::1", 65535}};
  for (const auto& c : cases) {
    const auto split = SplitHostPort(c.text);
    ASSERT_TRUE(split.has_value()) << c.text;
    EXPECT_EQ(split->host, c.host);
    EXPECT_EQ(split->port, c.port);
  }
}

TEST(HostPortTest, TakesNothingElse) {
  for (const char* text : {"", ":", "a", "a:", ":80", "[]:80", "a:65536", "a:-1", "a:+1", "a: 1",
                           "a:1x", "fd00::1:80", "[fd00::1]", "a:99999999999999999999"}) {
    EXPECT_FALSE(SplitHostPort(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace remesh
