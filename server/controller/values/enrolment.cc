// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/enrolment.h"

#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

absl::Status Refuse(absl::StatusCode code, const char* reason, const v1::Register& registration,
                    std::string_view what) {
  return MakeError(code, absl::StrCat("host ", registration.host(), ": ", std::string(what)),
                   {.reason = reason, .metadata = {{"host", registration.host()}}});
}

bool HasToken(const v1::Register& registration, const EnrolmentRules& rules) {
  return rules.join_token_hashes.contains(HashSecret(registration.join_token()));
}

// Begins another life, with an incarnation above every one that this server or the host's own
// record knows.
Enrolment NewLife(const v1::Register& registration, HostEntry entry) {
  entry.known.incarnation = std::max({entry.known.incarnation, registration.incarnation(),
                                      registration.last_incarnation()}) +
                            1;
  entry.known.secret_hash = HashSecret(registration.host_secret());
  entry.process_nonce = registration.process_nonce();
  return {.entry = std::move(entry), .changed = true};
}

absl::StatusOr<Enrolment> EnrolUnknown(const v1::Register& registration, bool vouched, size_t hosts,
                                       const EnrolmentRules& rules) {
  const bool needs_token = !vouched && !rules.join_token_hashes.empty();
  if (needs_token && !HasToken(registration, rules)) {
    return Refuse(absl::StatusCode::kPermissionDenied, "JOIN_TOKEN", registration,
                  "not known here, and no valid join token came with it");
  }
  if (hosts >= rules.hosts_max) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, absl::StrCat("there are ", hosts, " hosts already"),
        {.reason = "TOO_MANY_HOSTS", .metadata = {{"hosts_max", absl::StrCat(rules.hosts_max)}}});
  }
  return NewLife(registration, HostEntry{.known = {}, .durable = vouched || needs_token});
}

// The worker names a host that proved its identity by another secret.
absl::StatusOr<Enrolment> EnrolWithoutSecret(const v1::Register& registration,
                                             const HostEntry& entry, bool alive, bool lost,
                                             const EnrolmentRules& rules) {
  constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
  if (!lost) {
    return Refuse(kDenied, "HOST_SECRET", registration,
                  alive ? "another worker has this name and is attached: set another `host`"
                        : "the worker that had this name has another secret, and is away for less "
                          "than lost_after; if this one lost it, it may join then");
  }
  if (rules.join_token_hashes.empty()) {
    return Refuse(
        kDenied, "HOST_SECRET", registration,
        absl::StrCat("it does not have the secret of the worker that had this name; if it "
                     "lost it: remeshctl workers reset ",
                     registration.host()));
  }
  if (!HasToken(registration, rules)) {
    return Refuse(
        kDenied, "JOIN_TOKEN", registration,
        absl::StrCat("its secret is lost, and no valid join token came with it; remeshctl "
                     "workers reset ",
                     registration.host(), " lets it in"));
  }
  Enrolment enrolment = NewLife(registration, entry);
  enrolment.warning =
      absl::StrCat("host ", registration.host(), " lost its secret and joined again by a token");
  return enrolment;
}

}  // namespace

std::string HashSecret(std::string_view secret) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

absl::StatusOr<Enrolment> Enrol(const v1::Register& registration, const HostEntry* entry,
                                bool vouched, bool alive, size_t hosts, Timestamp now,
                                const EnrolmentRules& rules) {
  if (entry == nullptr) return EnrolUnknown(registration, vouched, hosts, rules);
  const KnownHost& known = entry->known;
  if (known.secret_hash.empty()) return NewLife(registration, *entry);
  if (!vouched && known.secret_hash != HashSecret(registration.host_secret())) {
    const bool lost = !alive && now - entry->away_since >= rules.lost_after;
    return EnrolWithoutSecret(registration, *entry, alive, lost, rules);
  }
  const int64_t own = registration.incarnation();  // of this process, if it was welcomed before
  const bool same_process =
      own == 0 ? entry->process_nonce == registration.process_nonce() : own == known.incarnation;
  if (same_process) {
    Enrolment enrolment{.entry = *entry};
    enrolment.entry.process_nonce = registration.process_nonce();
    return enrolment;
  }
  if (own != 0 && own < known.incarnation) {
    return MakeError(absl::StatusCode::kAborted,
                     absl::StrCat("incarnation ", known.incarnation, " of host ",
                                  registration.host(), " is newer"),
                     {.reason = "SUPERSEDED",
                      .metadata = {{"host", registration.host()},
                                   {"incarnation", absl::StrCat(known.incarnation)}}});
  }
  return NewLife(registration, *entry);
}

}  // namespace remesh::server
