// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "base/check.h"

// What every fuzz target is made of. A target breaks by crashing, by a sanitizer, or by a
// REMESH_CHECK that fails, its own included.
namespace remesh::fuzz {

// Longer inputs are not tried: what must hold for them holds for short ones.
inline constexpr size_t kInputBytesMax = size_t{64} << 10;

// Readers refuse with a reason and blame the input, never themselves.
void CheckRefusal(const absl::Status& status);

// The input is `message` in protobuf's text format: a corpus can be read, and outlives changes of
// the bytes. Returns whether there is one.
bool ParseInput(const uint8_t* data, size_t size, google::protobuf::Message& message);
// One more step for libFuzzer, from `data` to other text in the same place; its size.
size_t MutateInput(uint8_t* data, size_t size, size_t size_max, unsigned seed,
                   google::protobuf::Message& message, google::protobuf::Message& donor,
                   std::string_view donor_text);

}  // namespace remesh::fuzz

// A target that reads text: the function's body follows.
#define REMESH_FUZZ_TEXT(text)                                              \
  static void FuzzOne(std::string_view text);                               \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    if (size > remesh::fuzz::kInputBytesMax) return 0;                      \
    FuzzOne({reinterpret_cast<const char*>(data), size});                   \
    return 0;                                                               \
  }                                                                         \
  static void FuzzOne(std::string_view text)

// A target that reads a message: the function's body follows.
#define REMESH_FUZZ_PROTO(Message, input)                                                       \
  static void FuzzOne(const Message& input);                                                    \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {                     \
    Message message;                                                                            \
    if (!remesh::fuzz::ParseInput(data, size, message)) return 0;                               \
    FuzzOne(message);                                                                           \
    return 0;                                                                                   \
  }                                                                                             \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max,        \
                                            unsigned seed) {                                    \
    Message message, donor;                                                                     \
    return remesh::fuzz::MutateInput(data, size, size_max, seed, message, donor, "");           \
  }                                                                                             \
  extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size,                 \
                                              const uint8_t* data2, size_t size2, uint8_t* out, \
                                              size_t size_max, unsigned seed) {                 \
    Message message, donor;                                                                     \
    if (size > size_max) return 0;                                                              \
    std::copy(data, data + size, out);                                                          \
    return remesh::fuzz::MutateInput(out, size, size_max, seed, message, donor,                 \
                                     {reinterpret_cast<const char*>(data2), size2});            \
  }                                                                                             \
  static void FuzzOne(const Message& input)
