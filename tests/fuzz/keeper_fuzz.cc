// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "base/check.h"
#include "tests/fuzz/target.h"
#include "worker/keeper/keeper_table.h"

// Every packet, with a descriptor or without, has a response; what was refused changes nothing, and
// the table has its limit. The text is packets, each behind a byte that says its length.
REMESH_FUZZ_TEXT(text) {
  using namespace remesh;
  constexpr size_t kSegmentsMax = 3;
  worker::KeeperTable table(kSegmentsMax);
  for (int i = 0; !text.empty() && i < 16; ++i) {
    const size_t length = std::min<size_t>(static_cast<uint8_t>(text[0]), text.size() - 1);
    const size_t before = table.size();
    const bool with_handle = i % 2 == 0;
    worker::Packet packet{std::string(text.substr(1, length)), with_handle ? Fd(dup(0)) : Fd()};
    const worker::PacketServer::Reply reply = table.Answer(packet);
    worker::KeeperResponse response;
    REMESH_CHECK(response.ParseFromString(reply.bytes));
    REMESH_CHECK(table.size() <= kSegmentsMax);
    if (response.code() != 0) REMESH_CHECK(table.size() == before && reply.fd == nullptr);
    text.remove_prefix(1 + length);
  }
}
