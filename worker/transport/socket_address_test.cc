// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/socket_address.h"

#include <gtest/gtest.h>

namespace remesh::worker {
namespace {

TEST(SocketAddressTest, ReadsWhatItPrints) {
  for (const std::string text : {"10.0.0.7:4711", "127.0.0.1:1", "[fd00::7]:65535", "[::1]:80"}) {
    const auto address = ParseSocketAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(FormatSocketAddress(*address), text);
  }
}

TEST(SocketAddressTest, RefusesAnythingElse) {
  for (const std::string text :
       {"", ":", "10.0.0.7", "10.0.0.7:", "10.0.0.7:0", "10.0.0.7:65536", "10.0.0.7:-1", "host:80",
        "fd00::7:80", "[10.0.0.7:80", "[]:80", "10.0.0.7.1:80", "10.0.0.7:80x"}) {
    EXPECT_EQ(ParseSocketAddress(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(MakeSocketAddress("localhost", 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SocketAddressTest, FindsTheInterface) {
  EXPECT_EQ(InterfaceOf(*MakeSocketAddress("127.0.0.1", 0)), "lo");
  EXPECT_EQ(InterfaceOf(*MakeSocketAddress("192.0.2.1", 0)), "");  // set aside for documentation
}

}  // namespace
}  // namespace remesh::worker
