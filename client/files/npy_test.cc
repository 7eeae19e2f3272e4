// SPDX-License-Identifier: Apache-2.0
#include "client/files/npy.h"

#include "base/error.h"
#include "gtest/gtest.h"

namespace remesh::client {

using planner::ElementType;
using planner::Shape;

namespace {

std::string WithDictionary(const std::string& dictionary) {
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

TEST(Npy, HeadersRoundTrip) {
  for (ElementType type :
       {ElementType::kF32, ElementType::kPred, ElementType::kC128, ElementType::kS8}) {
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 0, 5}}) {
      const std::string text = FormatNpyHeader(type, shape);
      EXPECT_EQ(text.size() % 64, 0u);
      const absl::StatusOr<NpyHeader> header = ParseNpyHeader(text + "data");
      ASSERT_TRUE(header.ok()) << header.status();
      EXPECT_EQ(header->type, type);
      EXPECT_EQ(header->shape, shape);
      EXPECT_EQ(header->bytes, text.size());
    }
  }
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const std::string text = WithDictionary(
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }                                "
      "\n");
  const absl::StatusOr<NpyHeader> header = ParseNpyHeader(text);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->type, ElementType::kF64);
  EXPECT_EQ(header->shape, (Shape{2, 3}));
}

// Regression: the value was "True,".
TEST(Npy, QuotesTheOrderAlone) {
  EXPECT_EQ(
      ParseNpyHeader(WithDictionary("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }"))
          .status()
          .message(),
      "fortran_order: value \"True\" must be False: rows first");
}

TEST(Npy, NamesTheFieldThatItRefuses) {
  const auto field = [](const std::string& text) {
    return GetErrorInfo(ParseNpyHeader(text).status()).metadata["field"];
  };
  EXPECT_EQ(field(""), "magic");
  EXPECT_EQ(field("PK\x03\x04 something else"), "magic");
  EXPECT_EQ(field(std::string("\x93NUMPY\x09\x00\x01\x00 ", 11)), "version");
  EXPECT_EQ(field(std::string("\x93NUMPY\x01\x00\xff\xff{", 11)), "header");
  EXPECT_EQ(field(WithDictionary("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }")),
            "descr");
  EXPECT_EQ(field(WithDictionary("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }")),
            "fortran_order");
  EXPECT_EQ(field(WithDictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (2x,), }")),
            "shape");
  EXPECT_EQ(field(WithDictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (2, ")),
            "shape");
  EXPECT_EQ(field(WithDictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }")),
            "shape[0]");
}

}  // namespace
}  // namespace remesh::client
