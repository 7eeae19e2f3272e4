// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::worker {

// Limits the connections that UCX 1.13 accepts. UCX accepts them by itself and without a limit:
// once out of descriptors, its listener spins, or closes for good, and a connection that sends
// nothing stays forever. In a program that calls this function, an accept() of ours replaces the C
// library's for every library. It keeps a reserve of descriptors free, takes at most
// kConnectionsPerAddress from an address, and ends a connection that has not sent its first bytes
// after kSilence. Idempotent, thread-safe.
void GuardAccepts();

}  // namespace remesh::worker
