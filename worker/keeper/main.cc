// SPDX-License-Identifier: Apache-2.0
// remesh-keeper: holds the handles of a host's device buffers, so that the buffers outlive the
// worker, as buffers in files do. It does nothing else, so there is no reason to end or upgrade it.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <iostream>

#include "CLI/CLI.hpp"
#include "service/settings/command_line.h"
#include "worker/keeper/keeper_table.h"
#include "worker/keeper/packet_server.h"

namespace remesh::worker {
namespace {

// As many segments as this process may open files, less the files for its own use.
size_t SegmentsMax() {
  constexpr rlim_t kOwn = PacketServer::kConnectionsMax + 64, kMost = 65'536;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_NOFILE, &files);
  return std::min(std::max(files.rlim_cur, kOwn + 1) - kOwn, kMost);
}

int Run(const std::string& socket_path) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  KeeperTable table(SegmentsMax());
  // Only the user that the keeper runs as may connect.
  auto server = PacketServer::Start(socket_path, 0600, "socket-path",
                                    [&table](Packet& packet) { return table.Answer(packet); });
  if (!server.ok()) {
    std::cerr << "remesh-keeper: " << server.status().message() << "\n";
    return absl::IsInvalidArgument(server.status()) ? 2 : 1;
  }
  std::cerr << "remesh-keeper: listening at " << socket_path << "\n";
  int signal = 0;
  sigwait(&signals, &signal);
  *server = nullptr;
  std::cerr << "remesh-keeper: ends by signal " << signal << " and lets go of " << table.size()
            << " segments\n";
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Holds the device buffers of a host's remesh-worker while that is restarted. Its own end "
      "frees those that no worker holds.");
  app.set_version_flag("--version", REMESH_VERSION);
  std::string socket_path = "/run/remesh/keeper.sock";
  app.add_option("--socket-path", socket_path, "Where the worker finds it (its keeper_socket).")
      ->capture_default_str();
  try {
    app.parse(service::WordsForCli(argc, argv));
  } catch (const CLI::ParseError& error) {
    return service::EndUsage("remesh-keeper", app, error);
  }
  return Run(socket_path);
}

}  // namespace
}  // namespace remesh::worker

int main(int argc, char** argv) { return remesh::worker::Main(argc, argv); }
