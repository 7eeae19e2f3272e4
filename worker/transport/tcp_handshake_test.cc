// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/tcp_handshake.h"

#include <gtest/gtest.h>

#include <set>

namespace remesh::worker::tcp {
namespace {

const AttemptToken kAcceptor = "token of acceptr", kDialer = "token of dialer.";
const Secrets kSecrets{kAcceptor, kDialer};

TEST(TcpHandshakeTest, BothProveBothTokens) {
  const Challenge challenge = MakeChallenge();
  const DialerHello hello = MakeHello(kSecrets, challenge);
  EXPECT_TRUE(Holds(hello, kSecrets, challenge));
  const Answer answer = MakeAnswer(kSecrets, challenge, hello);
  EXPECT_TRUE(Holds(answer, kSecrets, challenge, hello));
}

TEST(TcpHandshakeTest, EitherTokenAloneProvesNothing) {
  const AttemptToken guess = "a guess of it...";
  const Challenge challenge = MakeChallenge();
  EXPECT_FALSE(Holds(MakeHello({kAcceptor, guess}, challenge), kSecrets, challenge));
  EXPECT_FALSE(Holds(MakeHello({guess, kDialer}, challenge), kSecrets, challenge));
  EXPECT_FALSE(Holds(MakeHello({kDialer, kAcceptor}, challenge), kSecrets, challenge));
  const DialerHello hello = MakeHello(kSecrets, challenge);
  const Answer answer = MakeAnswer({guess, kDialer}, challenge, hello);
  EXPECT_FALSE(Holds(answer, kSecrets, challenge, hello));
}

TEST(TcpHandshakeTest, WhatWasRecordedProvesNothing) {
  const Challenge first = MakeChallenge(), second = MakeChallenge();
  EXPECT_NE(first.nonce, second.nonce);
  const DialerHello recorded = MakeHello(kSecrets, first);
  EXPECT_FALSE(Holds(recorded, kSecrets, second));
  const Answer answer = MakeAnswer(kSecrets, first, recorded);
  const DialerHello again = MakeHello(kSecrets, first);
  EXPECT_FALSE(Holds(answer, kSecrets, first, again)) << "of another hello";
}

TEST(TcpHandshakeTest, AHelloSentBackIsNoAnswer) {
  const Challenge challenge = MakeChallenge();
  const DialerHello hello = MakeHello(kSecrets, challenge);
  const Answer reflected{.code = Code::kAccepted, .proof = hello.proof};
  EXPECT_FALSE(Holds(reflected, kSecrets, challenge, hello));
}

TEST(TcpHandshakeTest, AFlippedBitAnywhereIsNoProof) {
  const Challenge challenge = MakeChallenge();
  const DialerHello hello = MakeHello(kSecrets, challenge);
  for (size_t bit = 0; bit < 8 * hello.proof.size(); ++bit) {
    DialerHello bent = hello;
    bent.proof[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(Holds(bent, kSecrets, challenge)) << bit;
  }
}

// An attacker who changes one host's peer table cannot make the other host speak in the clear.
TEST(TcpHandshakeTest, AConnectionInTheClearIsNotTakenForAnEncryptedOne) {
  const Secrets encrypted{kAcceptor, kDialer, true};
  const Challenge challenge = MakeChallenge();
  const DialerHello plain = MakeHello(kSecrets, challenge), other = MakeHello(encrypted, challenge);
  EXPECT_FALSE(Holds(plain, encrypted, challenge));
  EXPECT_FALSE(Holds(other, kSecrets, challenge));
  EXPECT_TRUE(Holds(other, encrypted, challenge));
  EXPECT_FALSE(Holds(MakeAnswer(kSecrets, challenge, other), encrypted, challenge, other));
  EXPECT_FALSE(Holds(MakeAnswer(encrypted, challenge, plain), kSecrets, challenge, plain));
}

TEST(TcpHandshakeTest, EveryConnectionAndDirectionHasAKeyOfItsOwn) {
  const Secrets encrypted{kAcceptor, kDialer, true};
  const Challenge first = MakeChallenge(), second = MakeChallenge();
  const DialerHello hello = MakeHello(encrypted, first), other = MakeHello(encrypted, first);
  std::set<std::array<uint8_t, 32>> keys;
  std::set<std::array<uint8_t, 12>> ivs;
  for (const ConnectionKeys& of :
       {KeysOf(encrypted, first, hello), KeysOf(encrypted, first, other),
        KeysOf(encrypted, second, hello), KeysOf({kDialer, kAcceptor, true}, first, hello)}) {
    for (const PipeKey& key : {of.to_acceptor, of.to_dialer}) {
      EXPECT_TRUE(keys.insert(key.key).second);
      EXPECT_TRUE(ivs.insert(key.iv).second);
    }
  }
  EXPECT_EQ(KeysOf(encrypted, first, hello).to_dialer.key,
            KeysOf(encrypted, first, hello).to_dialer.key);
}

TEST(TcpHandshakeTest, AnIdTellsTokensApartAndIsNoneOfThem) {
  EXPECT_NE(IdOf(kAcceptor), IdOf(kDialer));
  const TokenId id = IdOf(kAcceptor);
  EXPECT_NE(std::string(id.begin(), id.end()), kAcceptor);
}

}  // namespace
}  // namespace remesh::worker::tcp
