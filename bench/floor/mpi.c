// mpi is 64-byte messages between two ranks over whatever MPI chooses between processes of one host.
//
//	mpirun -np 2 mpi stream COUNT   messages one way: one float, messages a second
//	mpirun -np 2 mpi trips COUNT    round trips: the nanoseconds of each
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 64, WINDOW = 64 };

int main(int argc, char **argv) {
	int me;
	char out[MESSAGE] = {0}, in[WINDOW][MESSAGE];
	MPI_Request pending[WINDOW];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	long n = argc > 2 ? atol(argv[2]) : 0;
	if (n <= 0) MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!strcmp(argv[1], "stream")) { // windows of non-blocking messages, as OSU's bandwidth test has them
		double start = MPI_Wtime();
		n = (n + WINDOW - 1) / WINDOW * WINDOW;
		for (long i = 0; i < n; i += WINDOW) {
			for (int j = 0; j < WINDOW; j++)
				if (me == 0) MPI_Isend(out, MESSAGE, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &pending[j]);
				else MPI_Irecv(in[j], MESSAGE, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &pending[j]);
			MPI_Waitall(WINDOW, pending, MPI_STATUSES_IGNORE);
		}
		float rate = (float)(n / (MPI_Wtime() - start));
		if (me == 1) fwrite(&rate, sizeof rate, 1, stdout);
	} else {
		float *took = malloc((size_t)n * sizeof *took);
		if (!took) MPI_Abort(MPI_COMM_WORLD, 1);
		double start = MPI_Wtime(), end;
		for (long i = 0; i < n; i++, start = end) {
			if (me == 0) MPI_Send(out, MESSAGE, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(in[0], MESSAGE, MPI_CHAR, !me, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (me == 1) MPI_Send(out, MESSAGE, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
			end = MPI_Wtime();
			took[i] = (float)((end - start) * 1e9);
		}
		if (me == 0) fwrite(took, sizeof *took, (size_t)n, stdout);
		free(took);
	}
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
