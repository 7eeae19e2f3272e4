// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::worker {

// Bounds what UCX 1.13 accepts, which it does by itself and without a limit: once out of
// descriptors, its listener spins, or closes for good, and a connection that says nothing stays for
// ever. A program that calls this has an accept() of ours before the C library's, for every library
// in it: it keeps the reserve of descriptors free, takes kConnectionsPerAddress from an address,
// and ends a connection that has not said its first words after kSilence. Idempotent, thread-safe.
void GuardAccepts();

}  // namespace remesh::worker
