// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/commands/commands.h"

namespace remesh::client {
namespace {

namespace fs = std::filesystem;

struct DemoOptions {
  std::string python = "/usr/bin/python3";
  std::string package_folder;
  std::string device = "host";
  bool small = false, keep = false;
};

fs::path OwnFolder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : self.parent_path();
}

absl::Status Missing(const std::string& what, const std::string& path) {
  return MakeError(absl::StatusCode::kNotFound, absl::StrCat(what, " ", path, " is not there"),
                   {.reason = "FILE_NOT_FOUND", .metadata = {{"path", path}}});
}

// Replaces this process by the driver, a Python program beside the binaries' folder.
absl::Status Demo(const DemoOptions& options) {
  const fs::path folder = OwnFolder();
  const std::string package = options.package_folder.empty()
                                  ? (folder.parent_path() / "python").string()
                                  : options.package_folder;
  if (!fs::exists(fs::path(package) / "remesh" / "demo"))
    return Missing("the Python package in", package);
  const char* path = std::getenv("PYTHONPATH");
  ::setenv("PYTHONPATH", (path == nullptr ? package : absl::StrCat(package, ":", path)).c_str(), 1);
  std::vector<std::string> words = {options.python,  "-m",       "remesh.demo", "--bin-dir",
                                    folder.string(), "--device", options.device};
  if (options.small) words.push_back("--small");
  if (options.keep) words.push_back("--keep");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  return Missing(absl::StrCat("cannot run (", std::strerror(errno), ")"), options.python);
}

}  // namespace

void AddDemo(CLI::App& app, Command& command) {
  CLI::App* demo = app.add_subcommand(
      "demo",
      "Move Llama-3.2-1B's parameters between three layouts over processes of this machine");
  auto options = std::make_shared<DemoOptions>();
  demo->add_flag("--small", options->small, "A hundredth of the bytes");
  demo->add_option("--device", options->device,
                   "host; or, from the tree of a build, sim: simulated GPUs and a fake NCCL")
      ->transform(OneOf({"host", "sim"}))
      ->capture_default_str();
  demo->add_flag("--keep", options->keep, "Keep server and workers running until Ctrl-C");
  demo->add_option("--python", options->python, "Python with grpc, protobuf and numpy")
      ->capture_default_str();
  demo->add_option("--package", options->package_folder,
                   "Folder of the Python package (../python)");
  demo->callback([&command, options] { command = [options] { return Demo(*options); }; });
}

}  // namespace remesh::client
