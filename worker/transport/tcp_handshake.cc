// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/tcp_handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text/transport_names.h"

namespace remesh::worker::tcp {
namespace {

Nonce MakeNonce() {
  Nonce nonce;
  REMESH_CHECK(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()));
  return nonce;
}

// `role` prevents an answer from being sent back as a hello.
Proof Prove(std::string_view role, const Secrets& secrets, const Nonce& challenge,
            const Nonce& hello) {
  const std::string key = secrets.acceptor + secrets.dialer;
  std::string text(role);
  if (secrets.encrypted) text.append(" ").append(kDataCipher);
  text.append(challenge.begin(), challenge.end()).append(hello.begin(), hello.end());
  Proof proof;
  unsigned int size = 0;
  const auto* said =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), proof.data(), &size);
  REMESH_CHECK(said != nullptr && size == proof.size());
  return proof;
}

bool Equal(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

constexpr std::string_view kDialer = "remesh dialer";
constexpr std::string_view kAcceptor = "remesh acceptor";

}  // namespace

TokenId IdOf(const AttemptToken& token) {
  const std::string text = "remesh group" + token;
  std::array<unsigned char, 32> hash;
  unsigned int size = 0;
  REMESH_CHECK(EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_sha256(), nullptr) ==
               1);
  TokenId id;
  std::copy_n(hash.begin(), id.size(), id.begin());
  return id;
}

Challenge MakeChallenge() { return {.nonce = MakeNonce()}; }

DialerHello MakeHello(const Secrets& secrets, const Challenge& challenge) {
  DialerHello hello{
      .acceptor = IdOf(secrets.acceptor), .dialer = IdOf(secrets.dialer), .nonce = MakeNonce()};
  hello.proof = Prove(kDialer, secrets, challenge.nonce, hello.nonce);
  return hello;
}

bool Holds(const DialerHello& hello, const Secrets& secrets, const Challenge& challenge) {
  return Equal(hello.proof, Prove(kDialer, secrets, challenge.nonce, hello.nonce));
}

Answer MakeAnswer(const Secrets& secrets, const Challenge& challenge, const DialerHello& hello) {
  return {.code = Code::kAccepted,
          .proof = Prove(kAcceptor, secrets, challenge.nonce, hello.nonce)};
}

bool Holds(const Answer& answer, const Secrets& secrets, const Challenge& challenge,
           const DialerHello& hello) {
  return Equal(answer.proof, Prove(kAcceptor, secrets, challenge.nonce, hello.nonce));
}

ConnectionKeys KeysOf(const Secrets& secrets, const Challenge& challenge,
                      const DialerHello& hello) {
  REMESH_CHECK(secrets.encrypted);
  const std::string tokens = secrets.acceptor + secrets.dialer;
  std::string nonces(challenge.nonce.begin(), challenge.nonce.end());
  nonces.append(hello.nonce.begin(), hello.nonce.end());
  return {.to_acceptor = DerivePipeKey(tokens, nonces, "remesh data to acceptor"),
          .to_dialer = DerivePipeKey(tokens, nonces, "remesh data to dialer")};
}

}  // namespace remesh::worker::tcp
