// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace remesh::service {

// Computes the SHA-256 of bytes that come in parts.
class Sha256 {
 public:
  Sha256();

  void Add(std::string_view bytes);
  // The digest of all bytes added, as sha256sum prints it. Call once, at the end.
  std::string Hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  const std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace remesh::service
