// SPDX-License-Identifier: Apache-2.0
#include "client/files/tar_file.h"

#include <zlib.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace remesh::client {
namespace {

constexpr size_t kTarBlock = 512;
constexpr size_t kTarNameBytes = 100;
constexpr int kGzip = 16 + MAX_WBITS;

// The header of a file; numbers are octal.
std::string TarHeader(std::string_view name, size_t bytes, int64_t seconds) {
  REMESH_CHECK(name.size() <= kTarNameBytes);
  std::string header(kTarBlock, '\0');
  const auto put = [&](size_t at, std::string_view text) {
    std::memcpy(header.data() + at, text.data(), text.size());
  };
  put(0, name);
  put(100, "0000600");  // mode
  put(108, "0000000");  // owner
  put(116, "0000000");  // group
  put(124, absl::StrFormat("%011o", bytes));
  put(136, absl::StrFormat("%011o", seconds));
  put(148, "        ");  // the checksum counts as blanks while it is computed
  put(156, "0");         // type: a file
  put(257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, absl::StrFormat("%06o", sum));
  header[154] = '\0';
  return header;
}

}  // namespace

TarFile::TarFile(NewFile file) : file_(std::move(file)), zip_(std::make_unique<z_stream>()) {
  REMESH_CHECK(deflateInit2(zip_.get(), Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8,
                            Z_DEFAULT_STRATEGY) == Z_OK);
}

TarFile::~TarFile() { deflateEnd(zip_.get()); }

absl::StatusOr<std::unique_ptr<TarFile>> TarFile::Create(std::string path,
                                                         NewFile::Existing existing) {
  ASSIGN_OR_RETURN(NewFile file, NewFile::Open(std::move(path), existing));
  return std::unique_ptr<TarFile>(new TarFile(std::move(file)));
}

absl::Status TarFile::Add(std::string_view name, std::string_view content, int64_t seconds) {
  RETURN_IF_ERROR(Append(TarHeader(name, content.size(), seconds)));
  RETURN_IF_ERROR(Append(content));
  return Pad((kTarBlock - content.size() % kTarBlock) % kTarBlock);
}

absl::Status TarFile::Commit() {
  RETURN_IF_ERROR(Pad(2 * kTarBlock));
  RETURN_IF_ERROR(Append("", /*last=*/true));
  return file_.Commit();
}

absl::Status TarFile::Pad(size_t bytes) { return Append(std::string(bytes, '\0')); }

absl::Status TarFile::Append(std::string_view bytes, bool last) {
  std::vector<char> out(64 << 10);
  zip_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zip_->avail_in = static_cast<uInt>(bytes.size());
  do {
    zip_->next_out = reinterpret_cast<Bytef*>(out.data());
    zip_->avail_out = static_cast<uInt>(out.size());
    REMESH_CHECK(deflate(zip_.get(), last ? Z_FINISH : Z_NO_FLUSH) != Z_STREAM_ERROR);
    RETURN_IF_ERROR(file_.Write({out.data(), out.size() - zip_->avail_out}));
  } while (zip_->avail_out == 0);
  return absl::OkStatus();
}

}  // namespace remesh::client
