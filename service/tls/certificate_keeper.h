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
#include "service/process/folder_watch.h"
#include "service/tls/certificates.h"

namespace remesh::service {

// The metrics remesh_tls_*, which are 0 without TLS. Thread-safe.
struct TlsMetrics {
  explicit TlsMetrics(prometheus::Registry& registry);  // which must outlive it

  prometheus::Counter* reloaded;
  prometheus::Counter* refused;
  prometheus::Gauge* expiry;
  prometheus::Gauge* not_before;

  // `certificates` are in force from now on.
  void SetTimes(const Certificates& certificates);
};

// Holds the certificates in force. Reads the files again when they change (see FolderWatch) and
// replaces the certificates once the files pass the checks. Files that fail them change nothing, so
// a half-done rotation locks no peer out; each new reason is logged as a warning and counted.
// Thread-safe.
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

  // Never null. Returns the same object until the certificates are replaced.
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
  std::string refusal_;  // used by the thread only: why the files are refused now; "": they are not

  mutable absl::Mutex mutex_;
  std::shared_ptr<const Certificates> current_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::service
