// SPDX-License-Identifier: Apache-2.0
#include "client/files/array_file.h"

#include <cctype>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/files/box_copy.h"
#include "client/files/npy.h"
#include "nlohmann/json.hpp"

namespace remesh::client {

using planner::ElementType;
using planner::Name;
using planner::Shape;

namespace {

constexpr int64_t kJsonBytesMax = 1 << 16;

std::string Describe(std::string_view type, const std::string& shape) {
  return absl::StrCat(std::string(type), "[", shape, "]");
}

std::string Describe(ElementType type, const Shape& shape) {
  return Describe(Name(type), absl::StrJoin(shape, ","));
}

absl::Status Mismatch(const std::string& path, const std::string& found,
                      const std::string& expected) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat(path, " holds ", found, ", but the state's array is ", expected),
                   {.reason = "ARRAY_FILE_MISMATCH",
                    .metadata = {{"path", path}, {"found", found}, {"expected", expected}}});
}

absl::Status CheckNpy(const std::string& path, absl::Span<const std::byte> content,
                      ElementType type, const Shape& shape, size_t& header_bytes) {
  absl::StatusOr<NpyHeader> header =
      ParseNpyHeader({reinterpret_cast<const char*>(content.data()), content.size()});
  if (!header.ok()) return AtField(path, header.status());
  const bool raw = !header->raw.empty();
  const bool same_type = raw ? IsRawDescr(type, header->raw) : header->type == type;
  if (!same_type || header->shape != shape) {
    const std::string_view found = raw ? std::string_view(header->raw) : Name(header->type);
    return Mismatch(path, Describe(found, absl::StrJoin(header->shape, ",")),
                    Describe(type, shape));
  }
  header_bytes = header->bytes;
  return absl::OkStatus();
}

absl::Status CheckJson(const std::string& path, ElementType type, const Shape& shape) {
  RETURN_IF_ERROR(CheckRegularFile(path));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kJsonBytesMax));
  const nlohmann::json header = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object() || !header.contains("element_type") ||
      !header["element_type"].is_string() || !header.contains("shape") ||
      !header["shape"].is_array()) {
    return InvalidField(path, text.substr(0, 80),
                        "must be {\"element_type\": ..., \"shape\": [...]}");
  }
  nlohmann::json expected = nlohmann::json::array();
  for (int64_t extent : shape) expected.push_back(extent);
  const std::string found_type = header["element_type"].get<std::string>();
  if (found_type != Name(type) || header["shape"] != expected) {
    return Mismatch(path, absl::StrCat(found_type, header["shape"].dump()), Describe(type, shape));
  }
  return absl::OkStatus();
}

std::string JsonHeader(ElementType type, const Shape& shape) {
  return absl::StrCat("{\"element_type\": \"", std::string(Name(type)), "\", \"shape\": [",
                      absl::StrJoin(shape, ", "), "]}\n");
}

// Whether the array's only file is one of NumPy.
bool IsOnlyNpy(const std::string& stem) {
  std::error_code error;
  return !std::filesystem::exists(stem + ".bin", error) &&
         std::filesystem::exists(stem + ".npy", error);
}

absl::Status CheckLength(const std::string& path, size_t found, ElementType type,
                         const Shape& shape) {
  const size_t expected = DenseBytes(type, planner::ElementCount(shape));
  if (found == expected) return absl::OkStatus();
  return Mismatch(path, absl::StrCat(found, " bytes of data"),
                  absl::StrCat(Describe(type, shape), " of ", expected, " bytes"));
}

// Opens the file of an array, for reading.
absl::StatusOr<MappedFile> OpenOf(const std::string& array, const std::string& path) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path, /*writable=*/false);
  if (file.ok() || !absl::IsNotFound(file.status())) return file;
  return MakeError(file.status().code(),
                   absl::StrCat(path, " does not exist; array ", array, " is read from that file"),
                   GetErrorInfo(file.status()));
}

}  // namespace

std::string FileStem(const std::string& array_name) {
  std::string stem;
  for (unsigned char c : array_name) {
    const bool plain = std::isalnum(c) != 0 || c == '_' || c == '-' || (c == '.' && !stem.empty());
    if (plain) {
      stem += static_cast<char>(c);
    } else {
      absl::StrAppendFormat(&stem, "%%%02X", c);
    }
  }
  return stem;
}

absl::StatusOr<ArrayFile> ArrayFile::Open(const std::string& folder, const std::string& name,
                                          ElementType type, const Shape& shape) {
  const std::string stem = folder + "/" + FileStem(name);
  const bool npy = NpyDescr(type).has_value() || IsOnlyNpy(stem);
  const std::string path = stem + (npy ? ".npy" : ".bin");
  ASSIGN_OR_RETURN(MappedFile file, OpenOf(name, path));
  size_t header_bytes = 0;
  if (npy) {
    RETURN_IF_ERROR(CheckNpy(path, file.bytes(), type, shape, header_bytes));
  } else {
    RETURN_IF_ERROR(CheckJson(stem + ".json", type, shape));
  }
  RETURN_IF_ERROR(CheckLength(path, file.bytes().size() - header_bytes, type, shape));
  return ArrayFile(std::move(file), header_bytes);
}

absl::StatusOr<ArrayFile> ArrayFile::OpenOrCreate(const std::string& folder,
                                                  const std::string& name, ElementType type,
                                                  const Shape& shape) {
  const std::string stem = folder + "/" + FileStem(name);
  const std::string header = NpyDescr(type).has_value() ? FormatNpyHeader(type, shape) : "";
  const std::string path = stem + (header.empty() ? ".bin" : ".npy");
  const int64_t bytes =
      static_cast<int64_t>(header.size() + DenseBytes(type, planner::ElementCount(shape)));
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::OpenOrCreate(path, bytes));
  // Every host that writes into the file writes the same header.
  if (header.empty()) {
    RETURN_IF_ERROR(CheckRegularFile(stem + ".json"));
    RETURN_IF_ERROR(WriteFile(stem + ".json", JsonHeader(type, shape)));
  } else {
    std::memcpy(file.bytes().data(), header.data(), header.size());
  }
  return ArrayFile(std::move(file), header.size());
}

}  // namespace remesh::client
