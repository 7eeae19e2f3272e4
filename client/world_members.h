// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "google/protobuf/repeated_field.h"
#include "remesh/v1/coordination.pb.h"

namespace remesh::client {

// Members of a world, as errors and tables name them: "3@host-b,5@host-c", or the rank alone of one
// that the server does not have. At most 16 are named, the others are counted; "-": none.
std::string MemberNames(const google::protobuf::RepeatedField<int32_t>& ranks,
                        const v1::World& world);

// Those whom the world waits for to name the step after which they leave; null: none. The server
// lists it as a round.
const v1::World::Waiting* FindAgreement(const v1::World& world);

}  // namespace remesh::client
