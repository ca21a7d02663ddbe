/* A job that computes and takes checkpoints with SCR, and says on rank 0 what both took, as one line of JSON.
 *
 *   checkpoints COUNT COMPUTE_MS BUSY BYTES FILES WRITE_BYTES [FSYNC]
 *
 * Before each of COUNT checkpoints every rank computes for COMPUTE_MS, of which it is BUSY (0 to 1) on its core and
 * waits, as for a device, for the rest. It then writes FILES files of BYTES bytes together in writes of WRITE_BYTES,
 * and with FSYNC 1 brings each to the storage before it closes it, as an application does that counts on it.
 * Every rank is a node of its own to SCR (nodes.c). checkpoints.py is the same job for the embedded engine.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void compute(double wanted_s, double busy)
{
    const double until_s = seconds(CLOCK_THREAD_CPUTIME_ID) + wanted_s * busy;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < until_s) {
    }
    usleep((useconds_t)(wanted_s * (1 - busy) * 1e6));
    MPI_Barrier(MPI_COMM_WORLD);
}

static int write_file(const char *path, const char *data, size_t bytes, size_t at_once, int is_synced)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) {
        return 0;
    }
    int is_good = 1;
    for (size_t done = 0; is_good && done < bytes; done += at_once) {
        const size_t part = bytes - done < at_once ? bytes - done : at_once;
        is_good = write(fd, data, part) == (ssize_t)part;
    }
    is_good = is_good && (!is_synced || fsync(fd) == 0);
    return (close(fd) == 0) && is_good;
}

static void print_array(const char *name, const double *values, int count)
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < count; i++) {
        printf("%s%.6f", i ? ", " : "", values[i]);
    }
    printf("]");
}

static double checkpoint(int number, int rank, int files, const char *data, size_t bytes, size_t at_once,
                         int is_synced)
{
    char name[64], wanted[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
    const double began_s = seconds(CLOCK_MONOTONIC);
    int is_valid = 1;
    snprintf(name, sizeof name, "ckpt.%d", number);
    SCR_Start_output(name, SCR_FLAG_CHECKPOINT);
    for (int file = 0; file < files; file++) {
        snprintf(wanted, sizeof wanted, "%s/%s/rank_%d.%d", getenv("SCR_PREFIX"), name, rank, file);
        SCR_Route_file(wanted, path);
        is_valid &= write_file(path, data, bytes / (size_t)files, at_once, is_synced);
    }
    SCR_Complete_output(is_valid);
    return seconds(CLOCK_MONOTONIC) - began_s;
}

int main(int argc, char **argv)
{
    if (argc < 7 || argc > 8) {
        return 2;
    }
    const int count = atoi(argv[1]), files = atoi(argv[5]), is_synced = argc == 8 && atoi(argv[7]);
    const double compute_s = atof(argv[2]) / 1000, busy = atof(argv[3]);
    const size_t bytes = strtoull(argv[4], NULL, 10), at_once = strtoull(argv[6], NULL, 10);
    char *data = malloc(at_once);
    double *took_s = malloc((size_t)count * sizeof *took_s), *step_s = malloc((size_t)count * sizeof *step_s);
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(data, 'x', at_once);
    SCR_Init();
    MPI_Barrier(MPI_COMM_WORLD);
    const double began_s = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < count; i++) {
        const double step_began_s = seconds(CLOCK_MONOTONIC);
        compute(compute_s, busy);
        step_s[i] = seconds(CLOCK_MONOTONIC) - step_began_s;
        took_s[i] = checkpoint(i + 1, rank, files, data, bytes, at_once, is_synced);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double loop_s = seconds(CLOCK_MONOTONIC) - began_s;
    SCR_Finalize();
    if (rank == 0) {
        printf("{\"loop_s\": %.6f", loop_s);
        print_array("checkpoint_s", took_s, count);
        print_array("step_s", step_s, count);
        printf("}\n");
    }
    MPI_Finalize();
    return 0;
}
