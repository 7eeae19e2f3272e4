// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace remesh::client {

// A refusal of the text of `file` with the places of all its problems, as AtFile() makes it. Bad
// syntax is shown with its line and a caret below it.
absl::Status AtText(const std::string& file, const std::string& text, const absl::Status& status);

// The problems of a text, and those that the planner sees in `message`, which is what could be read
// of it: of entries without a problem, for others may follow from what is not there.
absl::Status WithMeaning(const absl::Status& problems, const google::protobuf::Message& message);

}  // namespace remesh::client
