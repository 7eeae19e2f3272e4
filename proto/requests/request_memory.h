// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstdint>

namespace remesh::proto {

// About how many bytes of memory a message takes once it is parsed from `bytes`: at least what it
// takes, and at most a few times that. Counts no further than a little beyond `most`. Reads bytes
// that are none of this message as far as they can be read.
uint64_t MemoryOfParsed(google::protobuf::io::ZeroCopyInputStream& bytes,
                        const google::protobuf::Descriptor& message, uint64_t most);

}  // namespace remesh::proto
