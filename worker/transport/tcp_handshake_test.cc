// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/tcp_handshake.h"

#include <gtest/gtest.h>

namespace remesh::worker::tcp {
namespace {

const AttemptToken kAcceptor = "token of acceptr", kDialer = "token of dialer.";

TEST(TcpHandshakeTest, BothProveBothTokens) {
  const Challenge challenge = MakeChallenge();
  const DialerHello hello = MakeHello(kAcceptor, kDialer, challenge);
  EXPECT_TRUE(Holds(hello, kAcceptor, kDialer, challenge));
  const Answer answer = MakeAnswer(kAcceptor, kDialer, challenge, hello);
  EXPECT_TRUE(Holds(answer, kAcceptor, kDialer, challenge, hello));
}

TEST(TcpHandshakeTest, EitherTokenAloneProvesNothing) {
  const AttemptToken guess = "a guess of it...";
  const Challenge challenge = MakeChallenge();
  EXPECT_FALSE(Holds(MakeHello(kAcceptor, guess, challenge), kAcceptor, kDialer, challenge));
  EXPECT_FALSE(Holds(MakeHello(guess, kDialer, challenge), kAcceptor, kDialer, challenge));
  EXPECT_FALSE(Holds(MakeHello(kDialer, kAcceptor, challenge), kAcceptor, kDialer, challenge));
  const DialerHello hello = MakeHello(kAcceptor, kDialer, challenge);
  const Answer answer = MakeAnswer(guess, kDialer, challenge, hello);
  EXPECT_FALSE(Holds(answer, kAcceptor, kDialer, challenge, hello));
}

TEST(TcpHandshakeTest, WhatWasRecordedProvesNothing) {
  const Challenge first = MakeChallenge(), second = MakeChallenge();
  EXPECT_NE(first.nonce, second.nonce);
  const DialerHello recorded = MakeHello(kAcceptor, kDialer, first);
  EXPECT_FALSE(Holds(recorded, kAcceptor, kDialer, second));
  const Answer answer = MakeAnswer(kAcceptor, kDialer, first, recorded);
  const DialerHello again = MakeHello(kAcceptor, kDialer, first);
  EXPECT_FALSE(Holds(answer, kAcceptor, kDialer, first, again)) << "of another hello";
}

TEST(TcpHandshakeTest, AHelloSentBackIsNoAnswer) {
  const Challenge challenge = MakeChallenge();
  const DialerHello hello = MakeHello(kAcceptor, kDialer, challenge);
  const Answer reflected{.code = Code::kAccepted, .proof = hello.proof};
  EXPECT_FALSE(Holds(reflected, kAcceptor, kDialer, challenge, hello));
}

TEST(TcpHandshakeTest, AFlippedBitAnywhereIsNoProof) {
  const Challenge challenge = MakeChallenge();
  const DialerHello hello = MakeHello(kAcceptor, kDialer, challenge);
  for (size_t bit = 0; bit < 8 * hello.proof.size(); ++bit) {
    DialerHello bent = hello;
    bent.proof[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(Holds(bent, kAcceptor, kDialer, challenge)) << bit;
  }
}

TEST(TcpHandshakeTest, AnIdTellsTokensApartAndIsNoneOfThem) {
  EXPECT_NE(IdOf(kAcceptor), IdOf(kDialer));
  const TokenId id = IdOf(kAcceptor);
  EXPECT_NE(std::string(id.begin(), id.end()), kAcceptor);
}

}  // namespace
}  // namespace remesh::worker::tcp
