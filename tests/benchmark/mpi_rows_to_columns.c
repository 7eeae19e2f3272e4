/* SPDX-License-Identifier: Apache-2.0
 * What MPI takes for the same move: f64[side, side] from rows to columns over all ranks, by one
 * MPI_Alltoallw of subarrays. Prints the seconds and the processor seconds of all ranks, for each of
 * ROUNDS rounds. mpirun -n RANKS mpi_rows_to_columns SIDE ROUNDS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static double processor_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int side = atoi(argv[1]), rounds = atoi(argv[2]), tile = side / ranks;
  double* rows = malloc(sizeof(double) * tile * side);
  double* columns = malloc(sizeof(double) * tile * side);
  for (long i = 0; i < (long)tile * side; ++i) rows[i] = rank, columns[i] = -1;
  int *ones = malloc(sizeof(int) * ranks), *zeros = calloc(ranks, sizeof(int));
  MPI_Datatype* from = malloc(sizeof(MPI_Datatype) * ranks);
  MPI_Datatype* to = malloc(sizeof(MPI_Datatype) * ranks);
  for (int i = 0; i < ranks; ++i) {
    const int block[2] = {tile, tile}, begin[2] = {0, i * tile}, end[2] = {i * tile, 0};
    const int wide[2] = {tile, side}, high[2] = {side, tile};
    MPI_Type_create_subarray(2, wide, block, begin, MPI_ORDER_C, MPI_DOUBLE, &from[i]);
    MPI_Type_create_subarray(2, high, block, end, MPI_ORDER_C, MPI_DOUBLE, &to[i]);
    MPI_Type_commit(&from[i]);
    MPI_Type_commit(&to[i]);
    ones[i] = 1;
  }
  for (int round = 0; round < rounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double processor = processor_seconds(), begun = MPI_Wtime();
    MPI_Alltoallw(rows, ones, zeros, from, columns, ones, zeros, to, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - begun;
    double own = processor_seconds() - processor, all = 0;
    MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%.6f %.6f\n", seconds, all);
  }
  const int wrong = columns[(long)(ranks - 1) * tile * tile] != ranks - 1;
  MPI_Finalize();
  return wrong;
}
