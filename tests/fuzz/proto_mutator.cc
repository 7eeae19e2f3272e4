// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/proto_mutator.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

namespace remesh::fuzz {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A field of a message.
struct ProtoMutator::Site {
  Message* message;
  const FieldDescriptor* field;
  const google::protobuf::Reflection& reflection() const { return *message->GetReflection(); }
  bool holds_messages() const { return field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE; }
};

namespace {

struct Value {
  uint64_t number = 0;
  double real = 0;
  std::string text;
};

// clang-format off
#define REMESH_FUZZ_SCALARS(DO)                                                              \
  DO(INT32, Int32, number) DO(INT64, Int64, number) DO(UINT32, UInt32, number)               \
  DO(UINT64, UInt64, number) DO(BOOL, Bool, number) DO(ENUM, EnumValue, number)              \
  DO(FLOAT, Float, real) DO(DOUBLE, Double, real) DO(STRING, String, text)
// clang-format on

// `index` of a list, or -1.
Value Get(const Message& m, const FieldDescriptor* f, int index) {
  const auto& reflection = *m.GetReflection();
  Value value;
  switch (f->cpp_type()) {
#define REMESH_FUZZ_GET(TYPE, Name, member)                                                 \
  case FieldDescriptor::CPPTYPE_##TYPE:                                                     \
    value.member =                                                                          \
        index < 0 ? reflection.Get##Name(m, f) : reflection.GetRepeated##Name(m, f, index); \
    break;
    REMESH_FUZZ_SCALARS(REMESH_FUZZ_GET)
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return value;
}

void Set(Message& m, const FieldDescriptor* f, int index, Value value) {
  const auto& reflection = *m.GetReflection();
  switch (f->cpp_type()) {
#define REMESH_FUZZ_SET(TYPE, Name, member)                     \
  case FieldDescriptor::CPPTYPE_##TYPE:                         \
    if (index < 0) {                                            \
      reflection.Set##Name(&m, f, value.member);                \
    } else {                                                    \
      reflection.SetRepeated##Name(&m, f, index, value.member); \
    }                                                           \
    break;
    REMESH_FUZZ_SCALARS(REMESH_FUZZ_SET)
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
}

void Add(Message& m, const FieldDescriptor* f) {
  const auto& reflection = *m.GetReflection();
  switch (f->cpp_type()) {
#define REMESH_FUZZ_ADD(TYPE, Name, member) \
  case FieldDescriptor::CPPTYPE_##TYPE:     \
    reflection.Add##Name(&m, f, {});        \
    break;
    REMESH_FUZZ_SCALARS(REMESH_FUZZ_ADD)
    case FieldDescriptor::CPPTYPE_MESSAGE:
      reflection.AddMessage(&m, f);
      break;
  }
}

constexpr uint64_t kNumbers[] = {0,          1,          2,          3,          16,
                                 64,         255,        4096,       1u << 20,   0x7fffffff,
                                 0x80000000, 1ull << 32, 1ull << 40, 1ull << 62, 1ull << 63,
                                 ~0ull,      ~0ull >> 1};
constexpr double kReals[] = {0,
                             -0.0,
                             1,
                             -1,
                             0.5,
                             1e-300,
                             1e9,
                             1e18,
                             1e19,
                             1e300,
                             7e13,
                             std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};

}  // namespace

// Every field of every message within one, set or not, and the messages.
struct ProtoMutator::Sites {
  explicit Sites(Message& message) { Collect(message); }
  void Collect(Message& message) {
    messages.push_back(&message);
    const auto& reflection = *message.GetReflection();
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = message.GetDescriptor()->field(i);
      fields.push_back({&message, field});
      if (!fields.back().holds_messages()) continue;
      if (field->is_repeated()) {
        for (int j = 0; j < reflection.FieldSize(message, field); ++j)
          Collect(*reflection.MutableRepeatedMessage(&message, field, j));
      } else if (reflection.HasField(message, field)) {
        Collect(*reflection.MutableMessage(&message, field));
      }
    }
  }
  std::vector<Site> fields;
  std::vector<Message*> messages;
};

void ProtoMutator::Mutate(Message& message, const Message& donor) {
  for (uint64_t i = 0, changes = 1 + Below(4); i < changes; ++i) MutateOnce(message, donor);
}

void ProtoMutator::MutateOnce(Message& message, const Message& donor) {
  const Sites sites(message);
  const std::unique_ptr<Message> other(Below(2) == 0 ? donor.New() : message.New());
  other->CopyFrom(&donor == &message || Below(2) == 0 ? message : donor);
  const Sites donors(*other);
  // What is set is more likely to be read: of three sites, the first such.
  Site site = sites.fields[Below(sites.fields.size())];
  for (int i = 0; i < 2; ++i) {
    const bool set = site.field->is_repeated()
                         ? site.reflection().FieldSize(*site.message, site.field) > 0
                         : site.reflection().HasField(*site.message, site.field);
    if (set) break;
    site = sites.fields[Below(sites.fields.size())];
  }
  site.field->is_repeated() ? MutateList(site, donors) : MutateSingular(site, donors);
}

void ProtoMutator::MutateSingular(const Site& site, const Sites& donors) {
  const auto& reflection = site.reflection();
  if (reflection.HasField(*site.message, site.field) && Below(6) == 0)
    return reflection.ClearField(site.message, site.field);
  if (!site.holds_messages()) return SetScalar(site, -1, donors);
  Copy(donors, *reflection.MutableMessage(site.message, site.field));
}

void ProtoMutator::MutateList(const Site& site, const Sites& donors) {
  const auto& reflection = site.reflection();
  Message* const m = site.message;
  const int size = reflection.FieldSize(*m, site.field);
  const int at = static_cast<int>(Below(size));
  switch (size == 0 ? 0 : Below(5)) {
    case 0:  // one more, anywhere
      Add(*m, site.field);
      if (!site.holds_messages()) SetScalar(site, size, donors);
      if (site.holds_messages())
        Copy(donors, *reflection.MutableRepeatedMessage(m, site.field, size));
      return reflection.SwapElements(m, site.field, at, size);
    case 1:
      reflection.SwapElements(m, site.field, at, size - 1);
      return reflection.RemoveLast(m, site.field);
    case 2:
      return reflection.SwapElements(m, site.field, at, static_cast<int>(Below(size)));
    case 3:  // the last once more
      Add(*m, site.field);
      if (!site.holds_messages()) return Set(*m, site.field, size, Get(*m, site.field, at));
      return reflection.MutableRepeatedMessage(m, site.field, size)
          ->CopyFrom(reflection.GetRepeatedMessage(*m, site.field, at));
    default:
      if (!site.holds_messages()) return SetScalar(site, at, donors);
      Copy(donors, *reflection.MutableRepeatedMessage(m, site.field, at));
  }
}

bool ProtoMutator::Copy(const Sites& donors, Message& into) {
  for (int i = 0; i < 64; ++i) {
    const Message* from = donors.messages[Below(donors.messages.size())];
    if (from->GetDescriptor() != into.GetDescriptor()) continue;
    into.CopyFrom(*from);
    return true;
  }
  return false;
}

void ProtoMutator::SetScalar(const Site& site, int index, const Sites& donors) {
  Value value = Get(*site.message, site.field, index);
  switch (Below(6)) {
    case 0:
      value.number += Below(2) == 0 ? 1 + Below(8) : -(1 + Below(8));
      value.real *= Below(2) == 0 ? 2 : -1;
      break;
    case 1:
      value.number = kNumbers[Below(std::size(kNumbers))];
      value.real = kReals[Below(std::size(kReals))];
      break;
    case 2:
      value.number = Below(17);
      value.real = static_cast<double>(Below(1000));
      break;
    case 3:
      value.number ^= uint64_t{1} << Below(64);
      value.real = std::bit_cast<double>(random_());
      break;
    default:  // what stands elsewhere: names and ids refer to each other
      for (int i = 0; i < 16; ++i) {
        const Site& other = donors.fields[Below(donors.fields.size())];
        if (other.field->cpp_type() != site.field->cpp_type()) continue;
        const int size = !other.field->is_repeated()
                             ? 0
                             : other.reflection().FieldSize(*other.message, other.field);
        if (other.field->is_repeated() && size == 0) continue;
        const int at = other.field->is_repeated() ? static_cast<int>(Below(size)) : -1;
        return Set(*site.message, site.field, index, Get(*other.message, other.field, at));
      }
  }
  if (site.field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    const size_t size = value.text.size();
    value.text.resize(size + 32);
    value.text.resize(
        LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(value.text.data()), size, value.text.size()));
  }
  Set(*site.message, site.field, index, value);
}

}  // namespace remesh::fuzz
