// SPDX-License-Identifier: Apache-2.0
#include "client/files/array_file.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "client/files/npy.h"
#include "gtest/gtest.h"

namespace remesh::client {

using planner::ElementType;

namespace {

class ArrayFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "array_file_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(ArrayFileTest, WritesAndReadsBothForms) {
  for (ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kS4}) {
    const std::string name = "layer/0." + std::string(planner::Name(type));
    {
      absl::StatusOr<ArrayFile> file = ArrayFile::OpenOrCreate(folder_, name, type, {3, 3});
      ASSERT_TRUE(file.ok()) << file.status();
      std::memset(file->data().data(), 0x5A, file->data().size());
    }
    const absl::StatusOr<ArrayFile> file = ArrayFile::Open(folder_, name, type, {3, 3});
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->data().size(), static_cast<size_t>((9 * planner::BitWidth(type) + 7) / 8));
    EXPECT_EQ(file->data().back(), std::byte{0x5A});
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/layer%2F0.f32.npy"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/layer%2F0.bf16.bin"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/layer%2F0.s4.json"));
}

TEST_F(ArrayFileTest, KeepsWhatAnotherHostWrote) {
  {
    const absl::StatusOr<ArrayFile> first =
        ArrayFile::OpenOrCreate(folder_, "w", ElementType::kU8, {4});
    ASSERT_TRUE(first.ok());
    first->data()[1] = std::byte{7};
  }
  const absl::StatusOr<ArrayFile> second =
      ArrayFile::OpenOrCreate(folder_, "w", ElementType::kU8, {4});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->data()[1], std::byte{7});
}

// Opening it waited for a process that writes into the FIFO.
TEST_F(ArrayFileTest, AFifoIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(mkfifo((folder_ + "/w.npy").c_str(), 0600), 0);
  for (const auto& file :
       {ArrayFile::Open(folder_, "w", ElementType::kF32, {4}).status(),
        ArrayFile::OpenOrCreate(folder_, "w", ElementType::kF32, {4}).status()}) {
    EXPECT_EQ(GetErrorInfo(file).reason, "NOT_A_FILE") << file;
    EXPECT_EQ(GetErrorInfo(file).metadata["path"], folder_ + "/w.npy");
  }
}

// The file beside it that tells type and shape was opened without a look.
TEST_F(ArrayFileTest, AFifoInPlaceOfTheDescriptionIsRefusedAndNotWaitedFor) {
  ASSERT_TRUE(ArrayFile::OpenOrCreate(folder_, "w", ElementType::kBf16, {4}).ok());
  const std::string path = folder_ + "/w.json";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const auto& file :
       {ArrayFile::Open(folder_, "w", ElementType::kBf16, {4}).status(),
        ArrayFile::OpenOrCreate(folder_, "w", ElementType::kBf16, {4}).status()}) {
    EXPECT_EQ(GetErrorInfo(file).reason, "NOT_A_FILE") << file;
    EXPECT_EQ(GetErrorInfo(file).metadata["path"], path);
  }
}

// A file that NumPy writes of a type that it does not know: `descr` and zeros.
void WriteRawNpy(const std::string& path, const std::string& descr, size_t bytes) {
  std::string header = FormatNpyHeader(ElementType::kF16, {4});
  header.replace(header.find("<f2"), 3, descr);
  std::ofstream(path) << header << std::string(bytes, '\0');
}

// Regression: "open w.bin: No such file".
TEST_F(ArrayFileTest, ReadsBf16AsNumPySavesIt) {
  for (const char* descr : {"|V2", "<V2"}) {
    WriteRawNpy(folder_ + "/w.npy", descr, 8);
    const auto file = ArrayFile::Open(folder_, "w", ElementType::kBf16, {4});
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->data().size(), 8u);
  }
  EXPECT_EQ(GetErrorInfo(ArrayFile::Open(folder_, "w", ElementType::kF8E5M2, {4}).status()).reason,
            "ARRAY_FILE_MISMATCH");
  EXPECT_EQ(GetErrorInfo(ArrayFile::Open(folder_, "w", ElementType::kF16, {4}).status()).reason,
            "ARRAY_FILE_MISMATCH");
  WriteRawNpy(folder_ + "/q.npy", "|V1", 4);
  EXPECT_TRUE(ArrayFile::Open(folder_, "q", ElementType::kF8E4M3Fn, {4}).ok());
  // NumPy gives each int4 a byte; the buffers do not.
  EXPECT_EQ(GetErrorInfo(ArrayFile::Open(folder_, "q", ElementType::kS4, {4}).status()).reason,
            "ARRAY_FILE_MISMATCH");
}

TEST_F(ArrayFileTest, RefusesOtherArrays) {
  ASSERT_TRUE(ArrayFile::OpenOrCreate(folder_, "w", ElementType::kF32, {4}).ok());
  ASSERT_TRUE(ArrayFile::OpenOrCreate(folder_, "b", ElementType::kBf16, {4}).ok());
  const auto reason = [&](const std::string& name, ElementType type, const planner::Shape& shape) {
    return GetErrorInfo(ArrayFile::Open(folder_, name, type, shape).status()).reason;
  };
  EXPECT_EQ(reason("w", ElementType::kS32, {4}), "ARRAY_FILE_MISMATCH");
  EXPECT_EQ(reason("w", ElementType::kF32, {2, 2}), "ARRAY_FILE_MISMATCH");
  EXPECT_EQ(reason("b", ElementType::kBf16, {5}), "ARRAY_FILE_MISMATCH");
  EXPECT_EQ(reason("b", ElementType::kF8E5M2, {8}), "ARRAY_FILE_MISMATCH");
  EXPECT_EQ(reason("absent", ElementType::kF32, {4}), "FILE_NOT_FOUND");
  EXPECT_EQ(
      GetErrorInfo(ArrayFile::OpenOrCreate(folder_, "w", ElementType::kF32, {99}).status()).reason,
      "FILE_DIFFERS");
}

TEST(FileStem, SpellsEveryNameAsOneFile) {
  EXPECT_EQ(FileStem("model.layers.0.mlp"), "model.layers.0.mlp");
  EXPECT_EQ(FileStem("../etc"), "%2E.%2Fetc");
  EXPECT_EQ(FileStem("a b%"), "a%20b%25");
}

}  // namespace
}  // namespace remesh::client
