// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/evp.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

// Encrypts and authenticates all that goes over a connection: records under AES-256-GCM (NIST SP
// 800-38D), each direction with a key of its own.
//
//   record: bytes of plaintext (u32, little endian, 1 to 65,536) | ciphertext | tag (16)
//
// As in TLS 1.3 (RFC 8446, 5.3), the nonce of a record is its number in its direction, XORed with
// the key's IV. So a record that is changed, cut, left out, repeated or moved is not authentic. The
// length is authenticated too. After 2^20 records, a key is replaced by the next one, which is
// derived from it: no key encrypts more than 64 GiB.
namespace remesh::worker::tcp {

struct PipeKey {
  std::array<uint8_t, 32> key{};
  std::array<uint8_t, 12> iv{};
};

// HKDF-SHA256.
PipeKey DerivePipeKey(std::string_view secret, std::string_view salt, std::string_view label);

inline constexpr size_t kSealedBytesMax = size_t{64} << 10;  // of plaintext, in a record
inline constexpr size_t kSealedHeadBytes = 4, kSealedTagBytes = 16;
inline constexpr uint64_t kRecordsOfAKey = uint64_t{1} << 20;

// Seals all records of one direction, or opens them, in the order of their numbers.
class RecordCipher {
 public:
  explicit RecordCipher(const PipeKey& key, uint64_t records_of_a_key = kRecordsOfAKey);

  // Seals the first bytes of `plain`, at most kSealedBytesMax, as the next record. Sets `record`
  // and returns the number of bytes sealed. REQUIRES: `plain` has at least one byte.
  size_t Seal(std::span<const iovec> plain, std::vector<std::byte>& record);
  // Opens the next record, which must be complete, and sets `plain`. Returns false if the record is
  // not authentic; `plain` is then of no use.
  bool Open(std::span<const std::byte> record, std::vector<std::byte>& plain);

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  void BeginRecord(bool seals);

  PipeKey key_;
  const uint64_t records_of_a_key_;
  uint64_t record_ = 0;  // under this key
  const std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
};

// Adds encryption to a non-blocking socket, with the interface of sendmsg(2) and readv(2). Not
// thread-safe.
class SealedPipe {
 public:
  SealedPipe(const PipeKey& out, const PipeKey& in) : out_(out), in_(in) {}

  // Returns how many of the first bytes of `vectors` were written, counting a record only once the
  // kernel has all of it; -1 with errno. After EAGAIN the next call must begin with the same bytes.
  ssize_t Write(int fd, std::span<const iovec> vectors);
  // Returns how many bytes were read, 0 at the end; -1 with errno, which is EBADMSG if they are not
  // authentic. Reads less than it could take only if no complete record is left.
  ssize_t Read(int fd, std::span<const iovec> vectors);
  // Whether Read() can return bytes without asking the socket.
  bool has_input() const {
    return opened_at_ < opened_.size() || NextRecord() != Next::kIncomplete;
  }
  size_t arrived_bytes() const { return arrived_.size(); }  // memory for arriving records
  // Adds bytes that were read from the socket before the pipe existed. REQUIRES: Read() was never
  // called.
  void Feed(std::span<const std::byte> bytes);

 private:
  enum class Next { kWhole, kIncomplete, kForged };
  // The state of the next record that has arrived and is not opened.
  Next NextRecord() const;
  Next OpenNext();
  ssize_t Fill(int fd);
  size_t CopyOpened(std::span<const iovec> vectors, size_t skip);

  RecordCipher out_;
  std::vector<std::byte> sealed_;  // the record that is being written
  size_t sealed_at_ = 0;
  size_t sealed_plain_ = 0;  // bytes of plaintext in it

  RecordCipher in_;
  std::vector<std::byte> arrived_;  // filled up to arrived_end_
  size_t arrived_at_ = 0, arrived_end_ = 0;
  bool forged_ = false;            // nothing from here on is authentic
  std::vector<std::byte> opened_;  // the last record; Read() has had opened_at_ bytes of it
  size_t opened_at_ = 0;
};

}  // namespace remesh::worker::tcp
