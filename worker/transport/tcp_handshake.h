// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "worker/transport/sealed_pipe.h"
#include "worker/transport/transport.h"

// The handshake in which two workers of one attempt prove to each other that they know both tokens,
// before either reads anything else. It is a challenge and response by HMAC-SHA256 (RFC 2104). Both
// proofs cover both nonces, so that nothing recorded can be used again.
//
//   acceptor -> dialer   Challenge{nonce}
//   dialer -> acceptor   DialerHello{who is asked for, who asks, nonce, proof}
//   acceptor -> dialer   Answer{code, proof}
//
// Tokens never travel: a hash of its token names a group. If the attempt's peer table says so, all
// that follows is encrypted (sealed_pipe.h) under keys of this connection alone, which HKDF-SHA256
// (RFC 5869) makes of both tokens and both nonces. The proofs distinguish an encrypted connection
// from one in the clear, so hosts that disagree about it refuse each other.
namespace remesh::worker::tcp {

using Nonce = std::array<uint8_t, 16>;
using TokenId = std::array<uint8_t, 16>;
using Proof = std::array<uint8_t, 32>;
using Magic = std::array<char, 8>;

inline constexpr Magic kMagic = {'r', 'e', 'm', 'e', 's', 'h', 'd', '1'};

struct Challenge {
  Magic magic = kMagic;
  Nonce nonce{};
};

struct DialerHello {
  Magic magic = kMagic;
  TokenId acceptor{};
  TokenId dialer{};
  Nonce nonce{};
  Proof proof{};
};

enum class Code : uint8_t {
  kAccepted = 1,
  kNotHere = 2,  // no group of that token is open (yet): ask again
  kLeft = 3,     // the group was open, and is over
  kRefused = 4,  // the proof does not hold
};

struct Answer {
  Code code = Code::kRefused;
  Proof proof{};  // with kAccepted
};

static_assert(sizeof(Challenge) == 24 && sizeof(DialerHello) == 88 && sizeof(Answer) == 33);

// The two tokens, and whether the connection is encrypted.
struct Secrets {
  AttemptToken acceptor;
  AttemptToken dialer;
  bool encrypted = false;
};

// The first bytes of the token's SHA-256. The id finds a group without revealing how to enter it.
TokenId IdOf(const AttemptToken& token);

// Takes the nonce from the kernel.
Challenge MakeChallenge();
DialerHello MakeHello(const Secrets& secrets, const Challenge& challenge);
// Compares in constant time.
bool Holds(const DialerHello& hello, const Secrets& secrets, const Challenge& challenge);
// kAccepted, with a proof for the dialer that sent `hello`.
Answer MakeAnswer(const Secrets& secrets, const Challenge& challenge, const DialerHello& hello);
bool Holds(const Answer& answer, const Secrets& secrets, const Challenge& challenge,
           const DialerHello& hello);

struct ConnectionKeys {
  PipeKey to_acceptor;
  PipeKey to_dialer;
};
ConnectionKeys KeysOf(const Secrets& secrets, const Challenge& challenge, const DialerHello& hello);

}  // namespace remesh::worker::tcp
