// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace remesh::service {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Fields of /proc/self/stat from the third on. The second field, the name in parentheses, may
// contain spaces.
std::vector<std::string> StatFields() {
  const std::string stat = ReadAll("/proc/self/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 > stat.size()) return {};
  return absl::StrSplit(stat.substr(name_end + 2), ' ');
}

double Number(const std::vector<std::string>& fields, size_t field_of_proc) {
  double value = 0;
  if (field_of_proc - 3 >= fields.size() || !absl::SimpleAtod(fields[field_of_proc - 3], &value))
    return 0;
  return value;
}

double BootSeconds() {
  std::ifstream file("/proc/stat");
  double seconds = 0;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "btime ") && absl::SimpleAtod(line.substr(6), &seconds)) break;
  }
  return seconds;
}

double OpenFds() {
  std::error_code error;
  const std::filesystem::directory_iterator fds("/proc/self/fd", error);
  return error ? 0
               : static_cast<double>(std::distance(begin(fds), end(fds))) -
                     1;  // minus the descriptor that reads this
}

prometheus::MetricFamily Family(const char* name, const char* help, double value,
                                bool counter = false) {
  prometheus::ClientMetric metric;
  if (counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return {name,
          help,
          counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge,
          {metric}};
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  const std::vector<std::string> stat = StatFields();
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return {
      Family("process_cpu_seconds_total", "User and system CPU time in seconds.",
             (Number(stat, 14) + Number(stat, 15)) / ticks, true),
      Family("process_start_time_seconds", "Start of the process since the epoch in seconds.",
             BootSeconds() + Number(stat, 22) / ticks),
      Family("process_virtual_memory_bytes", "Virtual memory in bytes.", Number(stat, 23)),
      Family("process_resident_memory_bytes", "Resident memory in bytes.", Number(stat, 24) * page),
      Family("process_open_fds", "Open file descriptors.", OpenFds()),
      Family("process_max_fds", "Maximum number of open file descriptors.",
             static_cast<double>(files.rlim_cur)),
  };
}

}  // namespace remesh::service
