// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>

#include <random>

namespace remesh::fuzz {

// Changes messages by reflection, so that what comes out is always one. The same seed makes the
// same change; texts change as libFuzzer changes them (LLVMFuzzerMutate), with its dictionary.
class ProtoMutator {
 public:
  explicit ProtoMutator(unsigned seed) : random_(seed) {}

  // Some fields of `message`, however deep: set, cleared, another number or text, or a copy of what
  // stands elsewhere in `message` or in `donor`; elements added, doubled, removed or swapped.
  void Mutate(google::protobuf::Message& message, const google::protobuf::Message& donor);

 private:
  struct Sites;
  struct Site;
  void MutateOnce(google::protobuf::Message& message, const google::protobuf::Message& donor);
  void MutateSingular(const Site& site, const Sites& donors);
  void MutateList(const Site& site, const Sites& donors);
  void SetScalar(const Site& site, int index, const Sites& donors);
  // A copy of a message of that type; false when there is none.
  bool Copy(const Sites& donors, google::protobuf::Message& into);
  uint64_t Below(uint64_t end) { return end == 0 ? 0 : random_() % end; }

  std::mt19937_64 random_;
};

}  // namespace remesh::fuzz
