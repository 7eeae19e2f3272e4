// SPDX-License-Identifier: Apache-2.0
//
// What is refused in process, with which exit status, and what is said of it.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/testing/remeshctl.h"

namespace remesh::client {
namespace {

TEST(RemeshctlRefusalsTest, RefusalsSayWhy) {
  Result r = Remeshctl("sharding '{devices=[2,2'");
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("reason: INVALID_FIELD"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("remeshctl: hlo_text: "), std::string::npos) << r.err;
  r = Remeshctl("plan -f client/testdata/no_arrays.json");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("topology: is missing; "), std::string::npos) << r.err;
  r = Remeshctl("plan -f no/such/file");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("no/such/file"), std::string::npos);
}

TEST(RemeshctlRefusalsTest, UsageErrorsAreTwo) {
  for (const char* arguments :
       {"", "nonsense", "layout", "layout --shape 4", "plan", "sharding", "plan -f x --view half",
        "layout -f x --shape 1 --sharding '{replicated}' --devices 1"}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_EQ(r.out, "") << arguments;
    EXPECT_NE(r.err, "") << arguments;
  }
  EXPECT_EQ(Remeshctl("--help").code, 0);
}

TEST(RemeshctlRefusalsTest, UsageErrorsNameWhatIsWrong) {
  for (const auto& [arguments, said] : std::vector<std::pair<const char*, const char*>>{
           {"nonsense", "\"nonsense\" is not a command"},
           {"plans nonsense", "\"nonsense\" is not a command"},
           {"plan -f x --view half", "value \"half\" must be one of basic, full"},
           {"reshard jobs/a/states/b --plan plans/x --generation 0",
            "value \"0\" must be a whole number, 1 or greater"},
           {"plan -f x --timeout nan", "value \"nan\" must be a duration above 0 and at most 30d"},
           {"plam", "\"plam\" is not a command; did you mean \"plan\"?"},
           {"states lits", "did you mean \"list\"?"},
           {"plan --flie x", "remeshctl: unknown flag --flie; did you mean --file?"},
           {"plans list --sourc-devices 8",
            "unknown flag --sourc-devices; did you mean --source-devices?"},
           {"states list --contxt x", "unknown flag --contxt; did you mean --context?"},
           {"states --server a:1 list",
            "unknown flag --server before the command; put flags after the command"},
           {"plans list --context", "--context needs a value: the name of a context"},
           {"plans watch -w", "unknown flag -w; this command watches already"},
           {"help plams", "\"plams\" is not a command; did you mean \"plans\"?"},
           {"help states create now", "did you mean \"remeshctl help states create\"?"}}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(said), std::string::npos) << r.err;
  }
}

TEST(RemeshctlRefusalsTest, WhatIsMissingIsNamed) {
  for (const auto& [arguments, said] : std::vector<std::pair<const char*, const char*>>{
           {"config", "config: no command given; commands: view, get-contexts, use-context"},
           {"", "remeshctl: no command given; commands: layout, sharding, "},
           {"plans precompute --state jobs/a/states/b",
            "at least one of --lose-one, --drain-one, --return-one, --plus-minus is required"},
           {"topology show hgx-h100 --oversubscription 2", "--oversubscription requires --racks"},
           {"plans list --source-devices 5..3",
            "--source-devices: value \"5..3\" must be a number"},
           {"journal backup ''", "FILE: value \"\" must be the path of a file"},
           {"plans export x ''", "FILE: value \"\" must be the path of a file"},
           {"plans list --older 1x", "--older: value \"1x\" must have a unit"}}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(said), std::string::npos) << r.err;
  }
}

// Regression: a missing file ended with 1 but a missing folder with 2.
TEST(RemeshctlRefusalsTest, AFolderThatIsMissingIsAFailure) {
  for (const char* arguments : {"put jobs/a/states/b no/such", "get jobs/a/states/b no/such",
                                "cache export no/such", "cache import no/such"}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 1) << arguments;
    EXPECT_NE(r.err.find("no/such: no such folder"), std::string::npos) << r.err;
  }
}

TEST(RemeshctlRefusalsTest, AFileThatCannotBeWrittenSaysWhy) {
  const Result r = Remeshctl(absl::StrCat("plan --html /no/such/x -f ", kExample));
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("cannot write /no/such/x: No such file or directory\n  code: NOT_FOUND"),
            std::string::npos)
      << r.err;
}

// Refuses values that the parser would cut to the range of their type, and names flag, value and
// range.
TEST(RemeshctlRefusalsTest, NumbersOutOfRangeAreRefused) {
  constexpr char kReshard[] = "reshard jobs/a/states/b --plan plans/x ";
  for (const auto& [arguments, flag, value, limit] : std::vector<std::array<std::string, 4>>{
           {absl::StrCat(kReshard, "--deadline 1e18"), "--deadline", "1e18", "at most 30d"},
           {absl::StrCat(kReshard, "--deadline 1e-10"), "--deadline", "1e-10", "from 1ns"},
           {absl::StrCat(kReshard, "--timeout 1e18"), "--timeout", "1e18", "at most 30d"},
           {absl::StrCat(kReshard, "--generation 99999999999999999999"), "--generation",
            "99999999999999999999", "9223372036854775807"},
           {absl::StrCat(kReshard, "--generation 1.5"), "--generation", "1.5", "whole"},
           {absl::StrCat(kReshard, "--window-bytes 0x10"), "--window-bytes", "0x10",
            "as in 256MiB"},
           {absl::StrCat(kReshard, "--lost-devices 1,-2"), "--lost-devices", "-2", "0 or greater"},
           {"plans list --timeout 1e300", "--timeout", "1e300", "at most 30d"},
           {"plans list --hits-min 99999999999999999999", "--hits-min", "99999999999999999999",
            "9223372036854775807"},
           {"topology show hgx-h100 --hosts 99999999999999999999", "--hosts",
            "99999999999999999999", "9223372036854775807"},
           {"plans precompute --state jobs/a/states/b --plus-minus 3000000000", "--plus-minus",
            "3000000000", "2147483647"},
           {"get jobs/a/states/b . --generation -1", "--generation", "-1", "1 or greater"}}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(flag + ":"), std::string::npos) << r.err;
    EXPECT_NE(r.err.find(absl::StrCat("\"", value, "\" must be ")), std::string::npos) << r.err;
    EXPECT_NE(r.err.find(limit), std::string::npos) << r.err;
  }
}

TEST(RemeshctlRefusalsTest, ADigitInFrontIsNoOctalNumber) {
  const Result r = Remeshctl("topology show hgx-h100 --hosts 010 -o json");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out)["hosts"].size(), 10u);
}

TEST(RemeshctlRefusalsTest, AnAnswerThatIsNotWrittenIsAFailure) {
  for (const std::string& arguments :
       {absl::StrCat("plan -o json -f ", kExample),
        absl::StrCat("plan --full -o json -f ", kExample),
        absl::StrCat("plan --full -f ", kExample), absl::StrCat("layout -f ", kExample),
        absl::StrCat("layout -o json -f ", kExample), std::string("sharding '{replicated}'"),
        std::string("topology list"), std::string("--help"), std::string("--version"),
        std::string("help"), std::string("version"), std::string("completion bash")}) {
    const Result r = Remeshctl(arguments + " > /dev/full");
    EXPECT_EQ(r.code, 1) << arguments;
    EXPECT_NE(r.err.find("stdout does not take the whole answer"), std::string::npos)
        << arguments << ": " << r.err;
  }
}

TEST(RemeshctlRefusalsTest, ServersAreHostAndPort) {
  for (const char* address : {"http://127.0.0.1:7070", "127.0.0.1", "localhost:", "localhost:http",
                              "localhost:99999", "::1:7070", ""}) {
    const Result r = Remeshctl(absl::StrCat("states list --server=", address));
    EXPECT_EQ(r.code, 2) << address;
    EXPECT_NE(r.err.find(absl::StrCat("--server: value \"", address, "\" must be HOST:PORT")),
              std::string::npos)
        << r.err;
  }
  const Result r = Remeshctl("states list --timeout 1 --server [::1]:1");
  EXPECT_EQ(r.code, 1) << r.err;
}

TEST(RemeshctlRefusalsTest, ErrorsOfFilesNameTheFile) {
  Result r = Remeshctl("plan -f client/testdata");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("client/testdata is a folder: name a file"), std::string::npos) << r.err;
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".yaml");
  std::ofstream(file) << "arrays: [\nx: }";
  r = Remeshctl("plan -f " + file);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find(file + ":2:4: "), std::string::npos) << r.err;
  r = Remeshctl("plan -f - < " + file);
  EXPECT_NE(r.err.find("remeshctl: stdin:2:4: "), std::string::npos) << r.err;
  // What is refused only after reading, too.
  std::string spec = ReadAll(kExample);
  spec.replace(spec.find("\"hlo_text\":\""), 12, "\"hlo_text\":\"?");
  std::ofstream(file) << spec;
  for (const char* command : {"plan -f ", "layout -f "}) {
    r = Remeshctl(command + file);
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(r.err.find(absl::StrCat("remeshctl: ", file, ":4: ")), 0u) << r.err;
  }
  std::remove(file.c_str());
}

// Each with a text that the message must contain exactly once.
TEST(RemeshctlRefusalsTest, ErrorsOfSpecsHelp) {
  const std::string spec = ReadAll(kExample);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = spec;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".spec");
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {with("\"hlo_text\"", "\"hlo_txt\""), "did you mean \"hlo_text\"?"},
           {with("\"device_lists\"", "\"deviceList\""), "did you mean \"deviceLists\"?"},
           {with("\"nics\"", "\"nicks\""), "did you mean \"nics\"?"},
           {with("\"bf16\"", "\"bfloat16\""), "did you mean \"bf16\"?"},
           {with("\"bf16\"", "\"torch.float8_e4m3fn\""), "did you mean \"f8e4m3fn\"?"},
           {with(",\"nic_bytes_per_second\":1e9", ""), "nic_bytes_per_second: is missing; "},
           {with(",\"element_type\":\"bf16\"", ""), "element_type: is missing; "}}) {
    std::ofstream(file) << text;
    const Result r = Remeshctl("plan -f " + file);
    EXPECT_EQ(r.code, 1) << said;
    const size_t at = r.err.find(said);
    ASSERT_NE(at, std::string::npos) << said << "\n" << r.err;
    EXPECT_EQ(r.err.find(said, at + 1), std::string::npos) << r.err;
    EXPECT_EQ(r.err.find("expectation"), std::string::npos) << r.err;
  }
  std::remove(file.c_str());
}

TEST(RemeshctlRefusalsTest, AFieldsNameCannotMoveTheCursor) {
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".keys");
  std::ofstream(file) << "\"op\\e[31mts\": 3\n";
  const Result r = Remeshctl("plan -f " + file);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("op\\x1b[31mts: value"), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find('\x1b'), std::string::npos) << r.err;
  std::remove(file.c_str());
}

TEST(RemeshctlRefusalsTest, AnotherKindOfFileIsNamed) {
  const Result r = Remeshctl(absl::StrCat("states create -f ", kExample, " --server 127.0.0.1:1"));
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(
      r.err.find("this looks like the spec of a plan, which remeshctl plan -f reads; this command "
                 "expects a state"),
      std::string::npos)
      << r.err;
}

}  // namespace
}  // namespace remesh::client
