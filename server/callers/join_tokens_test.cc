// SPDX-License-Identifier: Apache-2.0
#include "server/callers/join_tokens.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "server/controller/values/enrolment.h"

namespace remesh::server {
namespace {

absl::StatusOr<std::set<std::string>> Read(const std::string& text) {
  const std::string path = testing::TempDir() + "join_tokens_test";
  std::ofstream(path) << text;
  return ReadJoinTokens(path);
}

TEST(JoinTokensTest, OneALineSoThatTheyCanBeRotated) {
  const auto hashes = Read("0123456789abcdef\n\n  fedcba9876543210 \n");
  ASSERT_TRUE(hashes.ok()) << hashes.status();
  EXPECT_EQ(*hashes, (std::set<std::string>{HashSecret("0123456789abcdef"),
                                            HashSecret("fedcba9876543210")}));
}

TEST(JoinTokensTest, WhatCannotBeATokenIsRefusedWithoutShowingIt) {
  for (const std::string& text : {std::string(), std::string("short"), std::string(2000, 'x')}) {
    const absl::Status status = Read(text).status();
    EXPECT_EQ(GetErrorInfo(status).metadata["field"], "join_token_file");
    EXPECT_EQ(std::string(status.message()).find("short\""), std::string::npos) << status;
  }
  EXPECT_FALSE(ReadJoinTokens("/nowhere").ok());
}

TEST(JoinTokensTest, Loopback) {
  for (const char* address : {"127.0.0.1:70", "localhost:70", "[::1]:70"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"0.0.0.0:70", "[::]:70", "10.0.0.1:70", "host:70"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace
}  // namespace remesh::server
