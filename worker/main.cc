// SPDX-License-Identifier: Apache-2.0
#include "worker/data_plane.h"
#include "worker/worker_main.h"

int main(int argc, char** argv) {
  return remesh::worker::WorkerMain(argc, argv, {remesh::worker::CudaGpus()});
}
