// SPDX-License-Identifier: Apache-2.0
//
// What operators look at: workers, worlds, backups of the journal.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/testing/fake_server.h"
#include "client/testing/remeshctl.h"
#include "remesh/v1/admin.grpc.pb.h"
#include "remesh/v1/coordination.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// Workers that keep generation 2 of a state. On host-0 a trainer began write 8 of it, no more.
class FakeWorkerService : public v1::WorkerService::Service {
  static void AddOwed(const std::string& host, int64_t sealed, const std::string& write,
                      v1::ListWorkersResponse* response) {
    v1::Worker& worker = *response->add_workers();
    worker.mutable_registration()->set_host(host);
    v1::StateManifest& manifest = *worker.add_owed()->mutable_manifest();
    manifest.set_state("jobs/j/states/s");
    manifest.set_generation(2);
    manifest.set_phase(v1::SHARD_PHASE_READY);
    manifest.set_sealed_shards(sealed);
    manifest.set_total_shards(4);
    manifest.set_write(write);
  }
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    AddOwed("host-0", 1, "8", response);
    AddOwed("host-1", 4, "7", response);
    AddOwed("host-2", 4, "", response);
    return grpc::Status::OK;
  }
};

// Regression: a generation that was half rewritten looked like one that is whole, READY on all
// hosts, and was saved.
TEST(RemeshctlServerTest, OwedGenerationsShowWhatIsSealedAndOfWhichWrite) {
  FakeWorkerService service;
  const FakeServer server(service);
  const Result r = Remeshctl("workers owed --server " + server.address());
  EXPECT_EQ(r.code, 0) << r.err;
  const std::vector<std::string> words =
      absl::StrSplit(r.out, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const std::string table = absl::StrJoin(words, " ");
  EXPECT_THAT(table, HasSubstr("GENERATION PHASE SEALED WRITE BYTES"));
  EXPECT_THAT(table, HasSubstr("host-0 jobs/j/states/s - 2 READY 1/4 8 "));
  EXPECT_THAT(table, HasSubstr("host-1 jobs/j/states/s - 2 READY 4/4 7 "));
  EXPECT_THAT(table, HasSubstr("host-2 jobs/j/states/s - 2 READY 4/4 - "));
}

// A worker in each phase, and one of an earlier server, which tells none.
class WorkersInPhases : public v1::WorkerService::Service {
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    for (const auto& [name, phase] :
         {std::pair("host-0", v1::Worker::ALIVE), std::pair("host-1", v1::Worker::LOST),
          std::pair("host-2", v1::Worker::AWAY),
          std::pair("host-3", v1::Worker::PHASE_UNSPECIFIED)}) {
      v1::Worker& worker = *response->add_workers();
      worker.set_name(absl::StrCat("workers/", name));
      worker.set_phase(phase);
      worker.set_alive(phase == v1::Worker::ALIVE || phase == v1::Worker::PHASE_UNSPECIFIED);
    }
    return grpc::Status::OK;
  }
};

// Regression: a worker that left while it held nothing was shown as LOST.
TEST(RemeshctlServerTest, AWorkerThatLeftIsAwayNotLost) {
  WorkersInPhases service;
  const FakeServer server(service);
  const std::string list = absl::StrCat("workers list --server ", server.address());
  const Result all = Remeshctl(list);
  EXPECT_THAT(all.out, testing::ContainsRegex("workers/host-0 +ALIVE "));
  EXPECT_THAT(all.out, testing::ContainsRegex("workers/host-1 +LOST "));
  EXPECT_THAT(all.out, testing::ContainsRegex("workers/host-2 +AWAY "));
  EXPECT_THAT(all.out, testing::ContainsRegex("workers/host-3 +ALIVE "));
  EXPECT_EQ(Remeshctl(list + " -o name --phase AWAY").out, "workers/host-2\n");
  EXPECT_EQ(Remeshctl(list + " -o name --phase LOST").out, "workers/host-1\n");
}

class FakeAdminService : public v1::AdminService::Service {
  grpc::Status BackUpJournal(grpc::ServerContext*, const v1::BackUpJournalRequest*,
                             grpc::ServerWriter<v1::BackUpJournalResponse>* writer) override {
    v1::BackUpJournalResponse part;
    part.mutable_header()->set_journal_uid("uid");
    part.mutable_header()->set_file_bytes(5);
    writer->Write(part);
    part.set_data("hello");
    writer->Write(part);
    part.mutable_trailer()->set_sha256(kHelloSha256);
    writer->Write(part);
    return grpc::Status::OK;
  }

 public:
  static constexpr char kHelloSha256[] =
      "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
};

// Regression: only the table had the digest and the path.
TEST(RemeshctlServerTest, ABackupsDigestIsInEveryForm) {
  FakeAdminService service;
  const FakeServer server(service);
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".db");
  const auto backup = [&](const std::string& form) {
    const Result r = Remeshctl(absl::StrCat("journal backup ", file, " --force -o ", form,
                                            " --server ", server.address()));
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const Json json = Json::parse(backup("json"));
  EXPECT_EQ(json.value("file", ""), file);
  EXPECT_EQ(json.value("sha256", ""), FakeAdminService::kHelloSha256);
  EXPECT_EQ(json["journalUid"], "uid");
  EXPECT_EQ(json["fileBytes"], "5");
  const std::string yaml = backup("yaml");
  EXPECT_NE(yaml.find(absl::StrCat("\nsha256: \"", FakeAdminService::kHelloSha256, "\"\n")),
            std::string::npos)
      << yaml;
  EXPECT_EQ(backup("name"), file + "\n");
  EXPECT_NE(backup("table").find(FakeAdminService::kHelloSha256), std::string::npos);
  std::remove(file.c_str());
}

class FakeCoordinationService : public v1::CoordinationService::Service {
  grpc::Status ListWorlds(grpc::ServerContext*, const v1::ListWorldsRequest* request,
                          v1::ListWorldsResponse* response) override {
    parent_ = request->parent();
    v1::World& world = *response->add_worlds();
    world.set_name("jobs/a/worlds/main");
    world.set_phase(v1::World::FORMED);
    world.set_epoch(7);
    world.set_min_size(3);
    world.set_max_size(3);
    for (int rank = 0; rank < 3; ++rank) {
      v1::WorldMember& member = *world.add_members();
      member.set_rank(rank);
      member.set_host("host-" + std::to_string(rank));
      member.set_pid(100 + rank);
    }
    v1::World::Waiting& waiting = *world.add_waiting();
    waiting.set_name("save");
    waiting.add_absent(1);
    return grpc::Status::OK;
  }

 public:
  std::string parent_;
};

TEST(RemeshctlServerTest, WorldsSayWhomTheyWaitFor) {
  FakeCoordinationService service;
  const FakeServer server(service);
  const Result list = Remeshctl("worlds list --parent jobs/a --server " + server.address());
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(service.parent_, "jobs/a");
  EXPECT_NE(list.out.find("save: 1@host-1"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("3/3"), std::string::npos) << list.out;

  const std::string at = " --server " + server.address();
  const Result one = Remeshctl("worlds describe jobs/a/worlds/main" + at);
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("host-2"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("save since"), std::string::npos) << one.out;
  EXPECT_EQ(Json::parse(Remeshctl("worlds describe jobs/a/worlds/main -o json" + at).out)["epoch"],
            "7");
  const Result none = Remeshctl("worlds describe jobs/a/worlds/mein" + at);
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("jobs/a/worlds/main"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace remesh::client
