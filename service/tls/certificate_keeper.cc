// SPDX-License-Identifier: Apache-2.0
#include "service/tls/certificate_keeper.h"

#include <utility>

#include "base/status_macros.h"
#include "service/log/log.h"

namespace remesh::service {
namespace {

double UnixSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

prometheus::Family<prometheus::Counter>& ReloadFamily(prometheus::Registry& registry) {
  return prometheus::BuildCounter()
      .Name("remesh_tls_reloads_total")
      .Help("Changed certificate files, by outcome.")
      .Register(registry);
}

}  // namespace

TlsMetrics::TlsMetrics(prometheus::Registry& registry)
    : reloaded(&ReloadFamily(registry).Add({{"outcome", "reloaded"}})),
      refused(&ReloadFamily(registry).Add({{"outcome", "refused"}})),
      expiry(&prometheus::BuildGauge()
                  .Name("remesh_tls_certificate_expiry_timestamp_seconds")
                  .Help("When the process's own certificate expires; 0: no TLS.")
                  .Register(registry)
                  .Add({})),
      not_before(&prometheus::BuildGauge()
                      .Name("remesh_tls_certificate_not_before_timestamp_seconds")
                      .Help("When the process's own certificate became valid; 0: no TLS.")
                      .Register(registry)
                      .Add({})) {}

void TlsMetrics::SetTimes(const Certificates& certificates) {
  expiry->Set(UnixSeconds(certificates.expiry));
  not_before->Set(UnixSeconds(certificates.not_before));
}

absl::StatusOr<std::shared_ptr<CertificateKeeper>> CertificateKeeper::Start(Options options,
                                                                            TlsMetrics& metrics) {
  if (options.files.empty()) return nullptr;
  ASSIGN_OR_RETURN(Certificates first,
                   ReadCertificates(options.files, options.fields, options.now()));
  return std::shared_ptr<CertificateKeeper>(
      new CertificateKeeper(std::move(options), std::move(first), metrics));
}

CertificateKeeper::CertificateKeeper(Options options, Certificates first, TlsMetrics& metrics)
    : options_(std::move(options)),
      metrics_(metrics),
      watch_({options_.files.ca, options_.files.certificate, options_.files.key}, options_.poll),
      current_(std::make_shared<const Certificates>(std::move(first))) {
  metrics_.SetTimes(*current());
  thread_ = std::thread([this] { Run(); });
}

CertificateKeeper::~CertificateKeeper() {
  stopping_ = true;
  watch_.Wake();
  thread_.join();
}

std::shared_ptr<const Certificates> CertificateKeeper::current() const {
  absl::MutexLock lock(&mutex_);
  return current_;
}

void CertificateKeeper::Reload() { watch_.Wake(); }

void CertificateKeeper::Run() {
  while (!stopping_) {
    Read();  // first sees changes since Start()
    watch_.Wait();
  }
}

void CertificateKeeper::Read() {
  absl::StatusOr<Certificates> read =
      ReadCertificates(options_.files, options_.fields, options_.now());
  // Reports each reason once: a file that stays as it is would fill the log.
  const std::string refusal(read.status().message());
  const bool is_new = std::exchange(refusal_, refusal) != refusal;
  if (!read.ok()) {
    if (!is_new) return;
    metrics_.refused->Increment();
    return LogWarning("new certificates are refused, the old ones stay in force",
                      {{"error", read.status()}});
  }
  if (*read == *current()) return;
  metrics_.reloaded->Increment();
  metrics_.SetTimes(*read);
  LogInfo("certificates reloaded",
          {{"expiry", absl::FormatTime(read->expiry, absl::UTCTimeZone())}});
  absl::MutexLock lock(&mutex_);
  current_ = std::make_shared<const Certificates>(*std::move(read));
}

}  // namespace remesh::service
