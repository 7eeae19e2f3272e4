// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/sealed_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <random>
#include <string>
#include <utility>

#include "base/fd.h"

namespace remesh::worker::tcp {
namespace {

using Bytes = std::vector<std::byte>;

const PipeKey kKey = DerivePipeKey("secret", "salt", "one way"),
              kBack = DerivePipeKey("secret", "salt", "the other");

Bytes Random(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

iovec Vector(Bytes& bytes) { return {bytes.data(), bytes.size()}; }

Bytes Seal(RecordCipher& cipher, Bytes plain) {
  Bytes record;
  const iovec vector = Vector(plain);
  EXPECT_EQ(cipher.Seal({&vector, 1}, record), plain.size());
  return record;
}

TEST(RecordCipherTest, WhatIsSealedOpensInItsOrder) {
  RecordCipher sealer(kKey), opener(kKey);
  for (const size_t size : {1, 15, 16, 17, 1000, 65536}) {
    Bytes plain;
    const Bytes record = Seal(sealer, Random(size, 1));
    EXPECT_EQ(record.size(), kSealedHeadBytes + size + kSealedTagBytes);
    ASSERT_TRUE(opener.Open(record, plain));
    EXPECT_EQ(plain, Random(size, 1));
  }
}

TEST(RecordCipherTest, EqualBytesNeverLookEqual) {
  RecordCipher sealer(kKey);
  EXPECT_NE(Seal(sealer, Random(64, 1)), Seal(sealer, Random(64, 1)));
}

TEST(RecordCipherTest, ABitThatFlipsAnywhereIsNotAuthentic) {
  const Bytes record = [] {
    RecordCipher sealer(kKey);
    return Seal(sealer, Random(40, 1));
  }();
  for (size_t bit = 0; bit < 8 * record.size(); ++bit) {
    Bytes bent = record, plain;
    bent[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    RecordCipher opener(kKey);
    EXPECT_FALSE(opener.Open(bent, plain)) << bit;
  }
}

TEST(RecordCipherTest, RecordsLeftOutRepeatedOrSwappedAreNotAuthentic) {
  RecordCipher sealer(kKey);
  const Bytes first = Seal(sealer, Random(40, 1)), second = Seal(sealer, Random(40, 2));
  Bytes plain;
  RecordCipher left_out(kKey), repeated(kKey);
  EXPECT_FALSE(left_out.Open(second, plain));
  EXPECT_TRUE(repeated.Open(first, plain));
  EXPECT_FALSE(repeated.Open(first, plain));
}

TEST(RecordCipherTest, WhatAHostSentIsNotTakenBackByIt) {
  RecordCipher sealer(kKey), opener(kBack);
  Bytes plain;
  EXPECT_FALSE(opener.Open(Seal(sealer, Random(40, 1)), plain));
}

TEST(RecordCipherTest, KeysFollowEachOtherOnBothSides) {
  RecordCipher sealer(kKey, 3), opener(kKey, 3), of_one_key(kKey);
  for (int i = 0; i < 10; ++i) {
    Bytes plain, other;
    const Bytes record = Seal(sealer, Random(40, 1));
    ASSERT_TRUE(opener.Open(record, plain)) << i;
    EXPECT_EQ(of_one_key.Open(record, other), i < 3) << i;
  }
}

// Two pipes over a socket that takes little at a time.
class SealedPipeTest : public testing::Test {
 protected:
  SealedPipeTest() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    near_ = Fd(fds[0]);
    far_ = Fd(fds[1]);
    const int small = 4096;
    setsockopt(near_.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  }

  // Runs both ends until `size` bytes have arrived or one end fails.
  Bytes Pass(Bytes plain, size_t run) {
    Bytes got(plain.size());
    size_t sent = 0, received = 0;
    while (received < got.size()) {
      if (sent < plain.size()) {
        std::vector<iovec> vectors;
        for (size_t at = sent; at < plain.size() && vectors.size() < 64; at += run)
          vectors.push_back({plain.data() + at, std::min(run, plain.size() - at)});
        const ssize_t now = out_.Write(near_.get(), vectors);
        if (now > 0) sent += static_cast<size_t>(now);
        if (now < 0 && errno != EAGAIN) break;
      }
      iovec vectors[2] = {{got.data() + received, std::min<size_t>(77, got.size() - received)}, {}};
      const size_t rest = received + vectors[0].iov_len;
      vectors[1] = {got.data() + rest, got.size() - rest};
      const ssize_t now = in_.Read(far_.get(), vectors);
      if (now > 0) received += static_cast<size_t>(now);
      if (now < 0 && errno != EAGAIN) break;
    }
    got.resize(received);
    return got;
  }

  Fd near_, far_;
  SealedPipe out_{kKey, kBack}, in_{kBack, kKey};
};

TEST_F(SealedPipeTest, BytesArriveInWhateverPiecesTheyTravel) {
  for (const size_t run : {1000, 65536, 1000000}) {
    const Bytes plain = Random(700000, 7);
    EXPECT_EQ(Pass(plain, run), plain) << run;
    EXPECT_FALSE(in_.has_input());
  }
}

TEST_F(SealedPipeTest, NothingOfItTravelsInTheClear) {
  Bytes plain(1000, std::byte{'a'}), wire(2000);
  const iovec vector = Vector(plain);
  EXPECT_EQ(out_.Write(near_.get(), {&vector, 1}), 1000);
  const ssize_t got = recv(far_.get(), wire.data(), wire.size(), MSG_DONTWAIT);
  ASSERT_EQ(got, 1020);
  const std::string text(reinterpret_cast<const char*>(wire.data()), 1020);
  EXPECT_EQ(text.find("aaa"), std::string::npos);
}

TEST_F(SealedPipeTest, WhatIsNotAuthenticReachesNoBuffer) {
  Bytes plain(1000, std::byte{7}), wire(1020), got(1000, std::byte{0xee});
  const iovec vector = Vector(plain), room = Vector(got);
  EXPECT_EQ(out_.Write(near_.get(), {&vector, 1}), 1000);
  ASSERT_EQ(recv(far_.get(), wire.data(), wire.size(), MSG_DONTWAIT), 1020);
  wire[500] ^= std::byte{1};
  ASSERT_EQ(send(near_.get(), wire.data(), wire.size(), 0), 1020);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(in_.Read(far_.get(), {&room, 1}), -1);
    EXPECT_EQ(errno, EBADMSG);
  }
  EXPECT_EQ(got, Bytes(1000, std::byte{0xee}));
}

// A length that is not valid makes no memory grow.
TEST_F(SealedPipeTest, LengthsThatNoRecordHasAreRefusedAtOnce) {
  for (const uint32_t length : {0u, 65537u, ~0u}) {
    SealedPipe in(kBack, kKey);
    Bytes got(10);
    const iovec room = Vector(got);
    ASSERT_EQ(send(near_.get(), &length, sizeof(length), 0), ssize_t{sizeof(length)});
    EXPECT_EQ(in.Read(far_.get(), {&room, 1}), -1) << length;
    EXPECT_EQ(errno, EBADMSG);
  }
}

TEST_F(SealedPipeTest, WhatWasReadBeforeThePipeComesFirst) {
  RecordCipher sealer(kKey);
  const Bytes first = Seal(sealer, Random(300, 1)), second = Seal(sealer, Random(300, 2));
  in_.Feed(std::span(first).first(100));
  ASSERT_EQ(send(near_.get(), first.data() + 100, first.size() - 100, 0),
            static_cast<ssize_t>(first.size() - 100));
  ASSERT_EQ(send(near_.get(), second.data(), second.size(), 0),
            static_cast<ssize_t>(second.size()));
  Bytes got(600), expected = Random(300, 1);
  const Bytes more = Random(300, 2);
  expected.insert(expected.end(), more.begin(), more.end());
  const iovec room = Vector(got);
  EXPECT_EQ(in_.Read(far_.get(), {&room, 1}), 600);
  EXPECT_EQ(got, expected);
}

// Regression test: a record that had arrived together with the previous one was never reported to a
// reader that had no more room.
TEST_F(SealedPipeTest, AWholeRecordThatCameAlongIsInput) {
  RecordCipher sealer(kKey);
  Bytes both = Seal(sealer, Random(300, 1));
  const Bytes second = Seal(sealer, Random(300, 2));
  both.insert(both.end(), second.begin(), second.end());
  ASSERT_EQ(send(near_.get(), both.data(), both.size(), 0), static_cast<ssize_t>(both.size()));
  Bytes got(300);
  const iovec room = Vector(got);
  for (const uint32_t seed : {1, 2}) {
    EXPECT_EQ(in_.has_input(), seed == 2);
    EXPECT_EQ(in_.Read(far_.get(), {&room, 1}), 300);
    EXPECT_EQ(got, Random(300, seed));
  }
  EXPECT_FALSE(in_.has_input());
}

// Regression test: every connection took 256 KiB from the start.
TEST_F(SealedPipeTest, AConnectionOfSmallRecordsTakesLittle) {
  in_.Feed({});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Pass(Random(32, 1), 32), Random(32, 1));
  EXPECT_LE(in_.arrived_bytes(), 4096u);
  EXPECT_EQ(Pass(Random(1 << 20, 1), 1 << 20), Random(1 << 20, 1));
  EXPECT_LE(in_.arrived_bytes(), size_t{2} * (65536 + 20));
}

TEST_F(SealedPipeTest, TheEndIsTold) {
  near_ = Fd();
  Bytes got(10);
  const iovec room = Vector(got);
  EXPECT_EQ(in_.Read(far_.get(), {&room, 1}), 0);
}

}  // namespace
}  // namespace remesh::worker::tcp
