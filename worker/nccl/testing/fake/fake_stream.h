/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What the fake NCCL takes for a cudaStream_t: a pointer to a RemeshFakeStream, mostly the first
 * member of something larger. A C interface, as the two sides are linked apart: the fake is a
 * loadable library, the stream belongs to whoever plays the GPU. */
#ifdef __cplusplus
extern "C" {
#endif

#define REMESH_FAKE_STREAM_MAGIC 0x52464b53u

struct RemeshFakeStream {
  uint32_t magic; /* REMESH_FAKE_STREAM_MAGIC */
  uint32_t zero;

  /* Puts run(argument) at the end of the stream, never blocks; from any thread. What is on a stream
   * runs in order, once each, on one thread of the stream's own. A run may last until other streams
   * and processes have done their part, as a kernel of NCCL does: streams that exchange with each
   * other need threads of their own. The stream outlives what is on it. */
  void (*enqueue)(struct RemeshFakeStream* stream, void (*run)(void* argument), void* argument);

  /* Where the `bytes` bytes of device memory at `address` can be read and written; NULL if they are
   * not memory of this device. Only inside a run of this stream, and good until it returns. */
  void* (*translate)(struct RemeshFakeStream* stream, const void* address, size_t bytes);
};

#ifdef __cplusplus
}
#endif
