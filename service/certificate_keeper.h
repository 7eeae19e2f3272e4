// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "service/certificates.h"
#include "service/folder_watch.h"

namespace remesh::service {

// remesh_tls_*, which stand at 0 without TLS. Thread-safe.
struct TlsMetrics {
  explicit TlsMetrics(prometheus::Registry& registry);  // which must outlive it

  prometheus::Counter* reloaded;
  prometheus::Counter* refused;
  prometheus::Gauge* expiry;
  prometheus::Gauge* not_before;

  // Of the certificates in force from now on.
  void SetTimes(const Certificates& certificates);
};

// The certificates in force: reads the files again when they change (see FolderWatch), and replaces
// what it has once what they hold now passes the checks. Files that do not leave everything as it is, with a warning and a
// count for each new reason, so that half a rotation closes no door. Thread-safe.
class CertificateKeeper {
 public:
  struct Options {
    CertificateFiles files;
    CertificateFields fields;
    std::chrono::milliseconds poll = std::chrono::seconds(10);
    absl::AnyInvocable<absl::Time() const> now = [] { return absl::Now(); };
  };

  // Null without files. Errors: see ReadCertificates(). `metrics` must outlive the keeper.
  static absl::StatusOr<std::shared_ptr<CertificateKeeper>> Start(Options options,
                                                                  TlsMetrics& metrics);
  ~CertificateKeeper();

  // Never null; the same object for as long as nothing was replaced.
  std::shared_ptr<const Certificates> current() const;
  // Reads the files now, on the keeper's thread.
  void Reload();

 private:
  CertificateKeeper(Options options, Certificates first, TlsMetrics& metrics);
  void Run();
  void Read();

  const Options options_;
  TlsMetrics& metrics_;
  FolderWatch watch_;
  std::atomic<bool> stopping_ = false;
  std::string refusal_;  // the thread's own: why the files are not taken now; "": they are

  mutable absl::Mutex mutex_;
  std::shared_ptr<const Certificates> current_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::service
