// SPDX-License-Identifier: Apache-2.0
#include "proto/text/spec_json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/problems.h"
#include "proto/text/field_kinds.h"
#include "proto/text/known_fields.h"
#include "proto/text/pasted/pasted.h"
#include "proto/text/scalar_json.h"
#include "proto/text/wanted_kind.h"

namespace remesh::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// A valid entry of a list, in place of one that is wrong.
std::string WithoutMeaning(const FieldDescriptor& field) {
  if (IsMessage(field)) return "{}";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return "\"\"";
  return field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL ? "false" : "0";
}

// An open object or list.
struct Level {
  enum class Kind : int8_t { kMessage, kMap, kList, kSkipped };
  Kind kind = Kind::kMessage;
  const Descriptor* type = nullptr;        // of kMessage
  const FieldDescriptor* field = nullptr;  // of kMap and kList: the entry
  const char* close = "}";
  bool first = true;
  int64_t index = 0;                            // of kList: the next entry
  std::string key;                              // of kMessage and kMap: the current member
  const FieldDescriptor* current = nullptr;     // of kMessage; null: not known
  std::vector<const FieldDescriptor*> members;  // of kMessage: those that are set
  const FieldDescriptor* empty = nullptr;       // of kMessage: a member of a oneof that is null
  std::string devices;  // of a Sharding: the list that a pasted text implies
};

class Rewriter : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Rewriter(const Descriptor& type) : type_(type) {}

  SpecJson Take() && { return {std::move(out_), problems_.ToStatus()}; }

  bool null() override {
    if (levels_.empty()) return NotAMessage("");
    const FieldDescriptor* field = Current();
    if (field == nullptr) return true;
    if (levels_.back().kind == Kind::kMessage) {
      levels_.back().members.pop_back();
      if (field->real_containing_oneof() != nullptr) levels_.back().empty = field;
    }
    return Put("null");
  }
  bool boolean(bool value) override {
    const std::string text = value ? "true" : "false";
    return OnScalar({text, text, false});
  }
  bool number_integer(number_integer_t value) override {
    return OnScalar({absl::StrCat(value), absl::StrCat(value), false});
  }
  bool number_unsigned(number_unsigned_t value) override {
    return OnScalar({absl::StrCat(value), absl::StrCat(value), false});
  }
  bool number_float(number_float_t, const string_t& text) override {
    return OnScalar({text, text, false});
  }
  bool string(string_t& text) override { return OnScalar({text, Quoted(text), true}); }
  bool binary(binary_t&) override { return true; }
  bool key(string_t& key) override { return OnKey(key); }
  bool start_object(size_t) override { return OnObject(); }
  bool start_array(size_t) override { return OnArray(); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;  // CheckJson() has passed
  }

 private:
  using Kind = Level::Kind;

  bool Skips() const { return !levels_.empty() && levels_.back().kind == Kind::kSkipped; }

  // The field whose value comes next; null at the root and where nothing is known.
  const FieldDescriptor* Current() const {
    if (levels_.empty()) return nullptr;
    const Level& level = levels_.back();
    return level.kind == Kind::kMessage ? level.current : level.field;
  }
  bool InList() const { return !levels_.empty() && levels_.back().kind == Kind::kList; }
  bool InMap() const { return !levels_.empty() && levels_.back().kind == Kind::kMap; }
  // Whether the next value is an entry, or the only value, of its field.
  bool AtElement() const { return InList() || InMap() || !Current()->is_repeated(); }

  std::string Path() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.kind == Kind::kMap) {
        absl::StrAppend(&path, "[", level.key, "]");
      } else if (level.kind == Kind::kList) {
        absl::StrAppend(&path, "[", level.index, "]");
      } else if (!level.key.empty()) {
        absl::StrAppend(&path, path.empty() ? "" : ".",
                        level.current == nullptr ? level.key : level.current->name());
      }
    }
    return path;
  }

  // Notes a problem of the current value and writes a value without meaning in its place.
  bool Problem(const std::string& value, const std::string& expectation) {
    return Note(InvalidField(Path(), value, expectation));
  }
  bool Note(const absl::Status& status) {
    const bool room = problems_.Note(status).ok();
    if (InList()) Put(WithoutMeaning(*levels_.back().field));
    return room;
  }
  bool NotAMessage(const std::string& value) {
    return problems_.Note(InvalidField("text", value, "must be a map of " + NamesOf(type_))).ok();
  }

  // Writes the comma, and the key under the name `name`.
  void Begin(const std::string& name) {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (!std::exchange(level.first, false)) out_ += ',';
    if (level.kind != Kind::kList) absl::StrAppend(&out_, Quoted(name), ":");
  }
  void Begin() {
    if (levels_.empty()) return;
    const Level& level = levels_.back();
    Begin(level.kind == Kind::kMessage ? level.current->name() : level.key);
  }
  void End() {
    if (InList()) ++levels_.back().index;
  }
  bool Put(const std::string& json) {
    Begin();
    out_ += json;
    End();
    return true;
  }

  bool OnKey(const std::string& key) {
    Level& level = levels_.back();
    if (level.kind == Kind::kSkipped) return true;
    level.key = key;
    if (level.kind == Kind::kMap) return true;
    level.current = FindField(*level.type, key);
    if (level.current == nullptr) return Problem(key, UnknownFieldText(*level.type, key));
    return CheckMember(level);
  }

  // Refuses a second member of a oneof, and one that is given in both spellings.
  bool CheckMember(Level& level) {
    const FieldDescriptor& field = *level.current;
    for (const FieldDescriptor* other : level.members) {
      const bool same_oneof = field.real_containing_oneof() != nullptr &&
                              field.real_containing_oneof() == other->real_containing_oneof();
      if (other != &field && !same_oneof) continue;
      level.current = nullptr;
      level.key.clear();
      const std::string path = Path();
      const std::string why = other == &field ? "is given twice: give it once"
                                              : absl::StrCat("cannot be set together with ",
                                                             other->name(), ": keep only one");
      return problems_.Note(InvalidField(path, field.name(), why)).ok();
    }
    level.members.push_back(&field);
    return true;
  }

  bool OnScalar(const Scalar& scalar) {
    if (Skips()) return true;
    if (levels_.empty()) return NotAMessage(scalar.text);
    const FieldDescriptor* field = Current();
    if (field == nullptr) return true;
    if (field->is_map() && !InMap())
      return Problem(scalar.text, "must be a map of names to entries");
    if (!AtElement()) return OnScalarForList(*field, scalar);
    if (IsMessage(*field) && !IsWellKnown(*field)) return OnText(*field, scalar);
    if (scalar.is_string && levels_.back().kind == Kind::kMessage &&
        levels_.back().type->full_name() == kSharding) {
      return OnFormText(*field, scalar);
    }
    return OnPlain(*field, scalar);
  }

  bool OnPlain(const FieldDescriptor& field, const Scalar& scalar) {
    if (IsMessage(field)) return Put(scalar.json);
    const absl::StatusOr<std::string> json = ReadScalar(field, scalar);
    if (json.ok()) return Put(*json);
    return Problem(scalar.text, std::string(json.status().message()));
  }

  // One value where a list is expected: protobuf takes it as the only entry.
  bool OnScalarForList(const FieldDescriptor& field, const Scalar& scalar) {
    if (IsOf(field, kPlacement)) return PutPasted(ReadPastedPlacements(scalar.text));
    if (IsMessage(field) || !ReadScalar(field, scalar).ok())
      return Problem(scalar.text, WantsList(field, scalar.text));
    return OnPlain(field, scalar);
  }

  bool PutPasted(const absl::StatusOr<PastedJson>& pasted) {
    if (pasted.ok()) return Put(pasted->dump());
    return Note(AtField(Path(), pasted.status()));
  }

  // A text where a message is expected.
  bool OnText(const FieldDescriptor& field, const Scalar& scalar) {
    const std::string& name = field.message_type()->full_name();
    if (scalar.is_string && name == kPlacement) return PutPasted(ReadPastedPlacement(scalar.text));
    if (scalar.is_string && name == kDeviceList) return PutPasted(ReadPastedDevices(scalar.text));
    const bool is_form = name == kSharding || (levels_.back().kind == Kind::kMessage &&
                                               levels_.back().type->full_name() == kSharding);
    if (!scalar.is_string || !is_form) return Problem(scalar.text, WantsMessage(field));
    const absl::StatusOr<PastedSharding> pasted = ReadPastedSharding(scalar.text);
    if (!pasted.ok()) return Note(AtField(Path(), pasted.status()));
    if (name != kSharding) return PutMembers(*pasted);
    PastedJson sharding = pasted->members;
    if (!pasted->devices.is_null()) sharding["devices"] = pasted->devices;
    return Put(sharding.dump());
  }

  // A text in hlo_text, sdy_text or op_sharding that is another form's.
  bool OnFormText(const FieldDescriptor& field, const Scalar& scalar) {
    const std::string other = FormOfText(scalar.text);
    if (field.containing_oneof() == nullptr || other.empty() || other == field.name())
      return OnPlain(field, scalar);
    const absl::StatusOr<PastedSharding> pasted = ReadPastedSharding(scalar.text);
    if (!pasted.ok()) return Note(AtField(Path(), pasted.status()));
    return PutMembers(*pasted);
  }

  // Writes the members of a pasted sharding into the open one.
  bool PutMembers(const PastedSharding& pasted) {
    for (const auto& [name, value] : pasted.members.items()) {
      Begin(name);
      out_ += value.dump();
    }
    if (!pasted.devices.is_null()) levels_.back().devices = pasted.devices.dump();
    return true;
  }

  bool Push(Kind kind, const Descriptor* type, const FieldDescriptor* field, const char* open,
            const char* close) {
    Begin();
    out_ += open;
    levels_.push_back({.kind = kind, .type = type, .field = field, .close = close});
    return true;
  }
  bool Skip() {
    levels_.push_back({.kind = Kind::kSkipped, .close = ""});
    return true;
  }
  bool Refuse(const char* value, const std::string& expectation) {
    const bool room = Problem(value, expectation);
    return Skip() && room;
  }

  bool OnObject() {
    if (levels_.empty()) return Push(Kind::kMessage, &type_, nullptr, "{", "}");
    const FieldDescriptor* field = Current();
    if (Skips() || field == nullptr) return Skip();
    if (field->is_map() && !InMap() && !InList())
      return Push(Kind::kMap, nullptr, field->message_type()->map_value(), "{", "}");
    if (!AtElement()) return Refuse("{...}", WantsList(*field, ""));
    if (!IsMessage(*field)) return Refuse("{...}", WantsScalar(*field));
    return Push(Kind::kMessage, field->message_type(), nullptr, "{", "}");
  }

  bool OnArray() {
    if (levels_.empty()) {
      const bool room = NotAMessage("[...]");
      return Skip() && room;
    }
    const FieldDescriptor* field = Current();
    if (Skips() || field == nullptr) return Skip();
    if (field->is_map() && !InMap()) return Refuse("[...]", "must be a map of names to entries");
    if (!AtElement()) return Push(Kind::kList, nullptr, field, "[", "]");
    if (IsOf(*field, kDeviceList)) return PushListOf(*field, "ids");
    if (IsOf(*field, kDTensor)) return PushListOf(*field, "placements");
    return Refuse("[...]", IsMessage(*field) ? WantsMessage(*field) : WantsScalar(*field));
  }

  // A list where a message is expected of which a list is the main member.
  bool PushListOf(const FieldDescriptor& field, const std::string& member) {
    const FieldDescriptor* list = field.message_type()->FindFieldByName(member);
    Begin();
    absl::StrAppend(&out_, "{", Quoted(member), ":[");
    levels_.push_back({.kind = Kind::kList, .field = list, .close = "]}"});
    return true;
  }

  // Whether a member of this oneof is set in the open message.
  bool HasMemberOf(const google::protobuf::OneofDescriptor* oneof) const {
    for (const FieldDescriptor* field : levels_.back().members) {
      if (field->real_containing_oneof() == oneof) return true;
    }
    return false;
  }

  // A text that begins with # is a comment of YAML, and its field empty.
  bool CheckEmpty() {
    const FieldDescriptor* empty = levels_.back().empty;
    if (empty == nullptr || HasMemberOf(empty->real_containing_oneof())) return true;
    levels_.back().current = empty;
    levels_.back().key = empty->name();
    return Problem(
        "",
        "is empty. YAML treats everything after # as a comment: put quotes around a text "
        "that begins with #");
  }

  bool Close() {
    const bool room = CheckEmpty();
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    if (level.kind == Kind::kSkipped) return room;
    const bool has_devices =
        std::any_of(level.members.begin(), level.members.end(),
                    [](const auto* field) { return field->name() == "devices"; });
    if (!level.devices.empty() && !has_devices)
      absl::StrAppend(&out_, ",\"devices\":", level.devices);
    out_ += level.close;
    End();
    return room;
  }

  const Descriptor& type_;
  std::string out_;
  std::vector<Level> levels_;
  Problems problems_;
};

}  // namespace

SpecJson ReadSpecJson(std::string_view json, const google::protobuf::Descriptor& type) {
  Rewriter rewriter(type);
  nlohmann::json::sax_parse(json.begin(), json.end(), &rewriter);
  return std::move(rewriter).Take();
}

}  // namespace remesh::proto
