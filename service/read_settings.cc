// SPDX-License-Identifier: Apache-2.0
#include "service/read_settings.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>

#include "service/version.h"

namespace remesh {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int Refuse(const std::string& what, const absl::Status& status) {
  std::cerr << what << ": " << status.message() << "\n";
  return kUsage;
}

}  // namespace

std::optional<int> ReadSettings(int argc, char** argv, const std::string& description,
                                Settings& settings) {
  CLI::App app(description);
  app.set_version_flag("--version", std::string(kVersion));
  std::string config_path;
  bool print_config = false;
  app.add_option("--config", config_path, "YAML file with settings; flags override it.")
      ->type_name("FILE");
  app.add_flag("--print-config", print_config,
               "Print a commented file of all settings as file and flags set them, and end.");
  settings.AddFlags(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  if (!config_path.empty()) {
    std::error_code error;
    if (std::filesystem::is_directory(config_path, error))
      return Refuse(config_path, absl::InvalidArgumentError("is a directory, not a file"));
    std::ifstream file(config_path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.is_open() || file.bad())
      return Refuse(config_path, absl::NotFoundError("cannot be read"));
    if (const absl::Status status = settings.Load(text); !status.ok())
      return Refuse(config_path, status);
  }
  if (const absl::Status status = settings.ApplyFlags(); !status.ok())
    return Refuse("flags", status);
  if (!print_config) return std::nullopt;
  std::cout << settings.InForce(description) << std::flush;
  return std::cout ? 0 : kFailed;
}

}  // namespace remesh
