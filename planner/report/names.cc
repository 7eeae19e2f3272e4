// SPDX-License-Identifier: Apache-2.0
#include "planner/report/names.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace remesh {
namespace {

constexpr size_t kHostsNamed = 3;

}  // namespace

std::string Names::Domain(int32_t domain) const {
  std::vector<std::string> hosts;
  size_t count = 0;
  for (int32_t h = 0; h < network_.host_count(); ++h) {
    int32_t d = network_.hosts[h].parent;
    while (d >= 0 && d != domain) d = network_.domains[d].parent;
    if (d != domain) continue;
    if (++count <= kHostsNamed) hosts.push_back(Host(h));
  }
  std::string text = absl::StrCat("domain of ", absl::StrJoin(hosts, ", "));
  if (count > kHostsNamed) absl::StrAppend(&text, " and ", count - kHostsNamed, " more");
  return text;
}

std::string Names::Nic(int32_t nic) const {
  const int32_t host = network_.nics[nic].host;
  const std::vector<int32_t>& nics = network_.hosts[host].nics;
  const auto at = std::find(nics.begin(), nics.end(), nic);
  return absl::StrCat("NIC ", at - nics.begin(), " of ", Host(host));
}

std::string Names::NameOf(const std::string& kind, int64_t index) const {
  const auto size = [](const auto& list) { return static_cast<int64_t>(list.size()); };
  if (kind == "host" && index < size(binding_.host_names)) {
    return absl::StrCat("host ", binding_.host_names[index]);
  }
  if (kind == "domain" && index < size(network_.domains)) {
    return Domain(static_cast<int32_t>(index));
  }
  if (kind == "device" && index < size(binding_.device_ids)) {
    return absl::StrCat("device ", binding_.device_ids[index]);
  }
  if (kind == "array" && index < size(binding_.array_names)) {
    return absl::StrCat("array ", binding_.array_names[index]);
  }
  return absl::StrCat(kind, " ", index);
}

std::string Names::InCallersWords(const std::string& sentence) const {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::string result;
  size_t i = 0;
  while (i < sentence.size()) {
    size_t word_end = i;
    while (word_end < sentence.size() && is_letter(sentence[word_end])) ++word_end;
    size_t number_end = word_end + 1;
    while (number_end < sentence.size() && is_digit(sentence[number_end])) ++number_end;
    int64_t index = 0;
    const bool names =
        word_end > i && word_end < sentence.size() && sentence[word_end] == ' ' &&
        absl::SimpleAtoi(sentence.substr(word_end + 1, number_end - word_end - 1), &index);
    if (names) {
      result += NameOf(sentence.substr(i, word_end - i), index);
      i = number_end;
    } else {
      const size_t end = std::max(word_end, i + 1);
      result += sentence.substr(i, end - i);
      i = end;
    }
  }
  return result;
}

}  // namespace remesh
