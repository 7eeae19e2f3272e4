// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh {

// Lets the C library keep what one plan freed for the next: up to 8 MiB at the top of each heap,
// with blocks below 4 MiB taken from there. By default it returns such memory to the kernel and
// faults it in again, which takes about a sixth of planning a small request. Before any thread
// starts; does nothing without glibc.
void KeepFreedMemory();

}  // namespace remesh
