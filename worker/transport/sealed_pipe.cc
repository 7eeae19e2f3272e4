// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/sealed_pipe.h"

#include <openssl/kdf.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace remesh::worker::tcp {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths travel as they lie in memory");

constexpr size_t kRecordBytesMax = kSealedHeadBytes + kSealedBytesMax + kSealedTagBytes;
constexpr size_t kReadBytesMax = size_t{2} * kRecordBytesMax;
constexpr size_t kReadBytesMin = 4096;

const unsigned char* In(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* Out(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// Calls take(data, size) for the runs of the first `left` bytes of `vectors`.
template <typename Take>
void TakeFirst(std::span<const iovec> vectors, size_t left, Take take) {
  for (const iovec& vector : vectors) {
    const size_t now = std::min(vector.iov_len, left);
    if (now > 0) take(static_cast<std::byte*>(vector.iov_base), now);
    left -= now;
  }
}

size_t BytesOf(std::span<const iovec> vectors) {
  size_t bytes = 0;
  for (const iovec& vector : vectors) bytes += vector.iov_len;
  return bytes;
}

}  // namespace

PipeKey DerivePipeKey(std::string_view secret, std::string_view salt, std::string_view label) {
  const auto data = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  const auto size = [](std::string_view text) { return static_cast<int>(text.size()); };
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
      EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), EVP_PKEY_CTX_free);
  std::array<uint8_t, sizeof(PipeKey)> bytes;
  size_t length = bytes.size();
  REMESH_CHECK(context != nullptr && EVP_PKEY_derive_init(context.get()) == 1);
  REMESH_CHECK(EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1);
  REMESH_CHECK(EVP_PKEY_CTX_set1_hkdf_salt(context.get(), data(salt), size(salt)) == 1);
  REMESH_CHECK(EVP_PKEY_CTX_set1_hkdf_key(context.get(), data(secret), size(secret)) == 1);
  REMESH_CHECK(EVP_PKEY_CTX_add1_hkdf_info(context.get(), data(label), size(label)) == 1);
  REMESH_CHECK(EVP_PKEY_derive(context.get(), bytes.data(), &length) == 1 &&
               length == bytes.size());
  PipeKey key;
  static_assert(sizeof(key) == 44);
  std::memcpy(key.key.data(), bytes.data(), key.key.size());
  std::memcpy(key.iv.data(), bytes.data() + key.key.size(), key.iv.size());
  return key;
}

RecordCipher::RecordCipher(const PipeKey& key, uint64_t records_of_a_key)
    : key_(key), records_of_a_key_(records_of_a_key), context_(EVP_CIPHER_CTX_new()) {
  REMESH_CHECK(context_ != nullptr);
}

void RecordCipher::BeginRecord(bool seals) {
  if (record_ == records_of_a_key_) {
    const std::string_view secret(reinterpret_cast<const char*>(key_.key.data()), key_.key.size());
    key_ = DerivePipeKey(secret, "", "remesh data, next key");
    record_ = 0;
  }
  std::array<uint8_t, 12> nonce = key_.iv;
  for (size_t i = 0; i < 8; ++i) nonce[4 + i] ^= static_cast<uint8_t>(record_ >> (8 * (7 - i)));
  const bool first = record_++ == 0;  // later ones keep the key's schedule
  REMESH_CHECK(EVP_CipherInit_ex(context_.get(), first ? EVP_aes_256_gcm() : nullptr, nullptr,
                                 first ? key_.key.data() : nullptr, nonce.data(),
                                 seals ? 1 : 0) == 1);
}

size_t RecordCipher::Seal(std::span<const iovec> plain, std::vector<std::byte>& record) {
  const size_t bytes = std::min(BytesOf(plain), kSealedBytesMax);
  REMESH_CHECK(bytes > 0);
  BeginRecord(true);
  record.resize(kSealedHeadBytes + bytes + kSealedTagBytes);
  const auto length = static_cast<uint32_t>(bytes);
  std::memcpy(record.data(), &length, sizeof(length));
  EVP_CIPHER_CTX* const context = context_.get();
  int done = 0;
  bool ok = EVP_EncryptUpdate(context, nullptr, &done, In(record), kSealedHeadBytes) == 1;
  std::byte* at = record.data() + kSealedHeadBytes;
  TakeFirst(plain, bytes, [&](const std::byte* data, size_t size) {
    ok = ok &&
         EVP_EncryptUpdate(context, Out(at), &done, In({data, size}), static_cast<int>(size)) == 1;
    at += size;
  });
  ok = ok && EVP_EncryptFinal_ex(context, Out(at), &done) == 1 &&
       EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, kSealedTagBytes, at) == 1;
  REMESH_CHECK(ok);
  return bytes;
}

bool RecordCipher::Open(std::span<const std::byte> record, std::vector<std::byte>& plain) {
  REMESH_CHECK(record.size() > kSealedHeadBytes + kSealedTagBytes);
  BeginRecord(false);
  plain.resize(record.size() - kSealedHeadBytes - kSealedTagBytes);
  const auto text = record.subspan(kSealedHeadBytes, plain.size());
  std::array<std::byte, kSealedTagBytes> tag;
  std::copy_n(record.end() - kSealedTagBytes, tag.size(), tag.begin());
  EVP_CIPHER_CTX* const context = context_.get();
  int done = 0;
  REMESH_CHECK(EVP_DecryptUpdate(context, nullptr, &done, In(record), kSealedHeadBytes) == 1 &&
               EVP_DecryptUpdate(context, Out(plain.data()), &done, In(text),
                                 static_cast<int>(text.size())) == 1 &&
               EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, kSealedTagBytes, tag.data()) ==
                   1);
  return EVP_DecryptFinal_ex(context, Out(plain.data() + plain.size()), &done) == 1;
}

ssize_t SealedPipe::Write(int fd, std::span<const iovec> vectors) {
  if (sealed_plain_ == 0) {
    sealed_plain_ = out_.Seal(vectors, sealed_);
    sealed_at_ = 0;
  }
  while (sealed_at_ < sealed_.size()) {
    const ssize_t sent = send(fd, sealed_.data() + sealed_at_, sealed_.size() - sealed_at_,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return -1;
    sealed_at_ += static_cast<size_t>(sent);
  }
  return static_cast<ssize_t>(std::exchange(sealed_plain_, 0));
}

void SealedPipe::Feed(std::span<const std::byte> bytes) {
  REMESH_CHECK(arrived_.empty());
  arrived_.resize(std::max(kReadBytesMin, bytes.size()));
  std::copy(bytes.begin(), bytes.end(), arrived_.begin());
  arrived_end_ = bytes.size();
}

SealedPipe::Next SealedPipe::NextRecord() const {
  if (forged_) return Next::kForged;
  uint32_t length = 0;
  const size_t there = arrived_end_ - arrived_at_;
  if (there < sizeof(length)) return Next::kIncomplete;
  std::memcpy(&length, arrived_.data() + arrived_at_, sizeof(length));
  if (length == 0 || length > kSealedBytesMax) return Next::kForged;
  return there < kSealedHeadBytes + length + kSealedTagBytes ? Next::kIncomplete : Next::kWhole;
}

SealedPipe::Next SealedPipe::OpenNext() {
  const Next next = NextRecord();
  if (next != Next::kWhole) return next;
  uint32_t length = 0;
  std::memcpy(&length, arrived_.data() + arrived_at_, sizeof(length));
  const size_t bytes = kSealedHeadBytes + length + kSealedTagBytes;
  opened_at_ = 0;
  if (!in_.Open(std::span(arrived_).subspan(arrived_at_, bytes), opened_)) {
    opened_.clear();
    forged_ = true;
    return Next::kForged;
  }
  arrived_at_ += bytes;
  return Next::kWhole;
}

// Reads the socket once and appends to arrived_; returns what read(2) returns. The buffer grows
// with the bytes that come at once, because most connections carry small records in this direction.
ssize_t SealedPipe::Fill(int fd) {
  if (arrived_.empty()) arrived_.resize(kReadBytesMin);
  std::memmove(arrived_.data(), arrived_.data() + arrived_at_, arrived_end_ - arrived_at_);
  arrived_end_ -= std::exchange(arrived_at_, 0);
  const ssize_t got =
      recv(fd, arrived_.data() + arrived_end_, arrived_.size() - arrived_end_, MSG_DONTWAIT);
  if (got > 0) arrived_end_ += static_cast<size_t>(got);
  const bool full = arrived_end_ == arrived_.size();
  if (full) arrived_.resize(std::min(kReadBytesMax, 4 * arrived_.size()));
  return got;
}

size_t SealedPipe::CopyOpened(std::span<const iovec> vectors, size_t skip) {
  const size_t before = opened_at_;
  for (const iovec& vector : vectors) {
    if (skip >= vector.iov_len) {
      skip -= vector.iov_len;
      continue;
    }
    const size_t now = std::min(vector.iov_len - skip, opened_.size() - opened_at_);
    std::memcpy(static_cast<std::byte*>(vector.iov_base) + skip, opened_.data() + opened_at_, now);
    opened_at_ += now;
    skip = 0;
    if (opened_at_ == opened_.size()) break;
  }
  return opened_at_ - before;
}

ssize_t SealedPipe::Read(int fd, std::span<const iovec> vectors) {
  const size_t room = BytesOf(vectors);
  for (size_t got = 0; got < room;) {
    if (opened_at_ < opened_.size()) {
      got += CopyOpened(vectors, got);
      continue;
    }
    const Next next = OpenNext();
    if (next == Next::kWhole) continue;
    if (got > 0) return static_cast<ssize_t>(got);  // the next call finds the forged record again
    if (next == Next::kForged) {
      errno = EBADMSG;
      return -1;
    }
    if (const ssize_t filled = Fill(fd); filled <= 0) return filled;
  }
  return static_cast<ssize_t>(room);
}

}  // namespace remesh::worker::tcp
