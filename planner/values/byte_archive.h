// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "planner/values/budget.h"

namespace remesh::planner {

// A writer and a reader with one interface, so that one function template defines the bytes of a
// value and both writes and reads them. Integers are zigzag varints; doubles are 8 bytes,
// little-endian; lists and texts follow their length.

class ByteWriter {
 public:
  template <typename T>
  void Number(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      const uint64_t bits = std::bit_cast<uint64_t>(value);
      for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(bits >> (8 * i)));
    } else {
      const int64_t number = static_cast<int64_t>(value);
      Varint((static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63));
    }
  }
  void Text(const std::string& text) {
    Number(text.size());
    bytes_ += text;
  }
  // Writes each number as its difference from the one before, so that slowly rising numbers take a
  // byte each.
  template <typename Numbers>
  void Steps(const Numbers& numbers) {
    Number(numbers.size());
    uint64_t last = 0;
    for (int64_t number : numbers) {
      Number(static_cast<int64_t>(static_cast<uint64_t>(number) - last));
      last = static_cast<uint64_t>(number);
    }
  }
  template <typename Items, typename Fields>
  void Each(const Items& items, Fields fields) {
    Number(items.size());
    for (const auto& item : items) fields(item);
  }
  bool ok() const { return true; }
  std::string Take() && { return std::move(bytes_); }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

// Reads what ByteWriter wrote. Safe for any bytes: never reads out of bounds, and takes memory in
// proportion to the bytes, since lists grow as their items are read; but an item of one byte may be
// a value of a hundred, so bytes of unknown origin need a budget. Fails once that is spent. After
// the first failure every number is 0 and every list empty. Reads enums as numbers: the caller
// checks that they are valid.
class ByteReader {
 public:
  // `budget` must outlive this.
  explicit ByteReader(std::string_view bytes, Budget& budget = Budget::Unlimited())
      : left_(bytes), budget_(budget) {}

  template <typename T>
  void Number(T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      value = std::bit_cast<T>(Fixed64());
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number = 0;
      Number(number);
      value = static_cast<T>(number);
    } else {
      const uint64_t bits = Varint();
      const int64_t number = static_cast<int64_t>((bits >> 1) ^ (~(bits & 1) + 1));
      if (!std::in_range<Wide<T>>(number) || (std::is_same_v<T, bool> && number >> 1 != 0)) Fail();
      value = ok_ ? static_cast<T>(number) : T{};
    }
  }
  void Text(std::string& text) {
    const size_t size = Count();
    text.assign(left_.substr(0, size));
    left_.remove_prefix(size);
  }
  template <typename Numbers>
  void Steps(Numbers& numbers) {
    using T = typename Numbers::value_type;
    uint64_t last = 0;
    numbers.clear();
    for (size_t i = Count(); GoesOn() && i > 0; --i) {
      int64_t step = 0;
      Number(step);
      last += static_cast<uint64_t>(step);
      const int64_t number = static_cast<int64_t>(last);
      if (!std::in_range<T>(number)) Fail();
      if (ok_) numbers.push_back(static_cast<T>(number));
    }
    if (!ok_) numbers.clear();
  }
  template <typename Items, typename Fields>
  void Each(Items& items, Fields fields) {
    items.clear();
    for (size_t i = Count(); GoesOn() && i > 0; --i) fields(items.emplace_back());
    if (!ok_) items.clear();
  }

  bool ok() const { return ok_; }
  bool done() const { return ok_ && left_.empty(); }

 private:
  // std::in_range does not accept bool.
  template <typename T>
  using Wide = std::conditional_t<std::is_same_v<T, bool>, int, T>;

  void Fail() {
    ok_ = false;
    left_ = {};
  }
  bool GoesOn() {
    if (budget_.Spent()) Fail();
    return ok_;
  }
  // Reads a length. Fails when it exceeds the bytes left: every item takes at least one.
  size_t Count() {
    uint64_t count = 0;
    Number(count);
    if (count > left_.size()) Fail();
    return ok_ ? count : 0;
  }
  uint64_t Fixed64() {
    if (left_.size() < 8) return Fail(), 0;
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits |= uint64_t{static_cast<uint8_t>(left_[i])} << (8 * i);
    left_.remove_prefix(8);
    return bits;
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) return Fail(), 0;
      const uint64_t byte = static_cast<uint8_t>(left_.front());
      left_.remove_prefix(1);
      if (shift == 63 && byte > 1) return Fail(), 0;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Fail(), 0;
  }

  std::string_view left_;
  Budget& budget_;
  bool ok_ = true;
};

}  // namespace remesh::planner
