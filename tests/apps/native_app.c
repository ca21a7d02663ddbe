/* An application that takes checkpoints with SCR, and says after each one what SCR has in force.
 *
 *   native_app OUTPUTS FILES BYTES [SCR_Config lines ...]
 *
 * OUTPUTS < 0: -OUTPUTS of them by the old functions. Every rank writes FILES files of BYTES bytes. Rank 0 prints
 * a line "out N name=value ..." for each output, and "same=0" when any rank had other values than rank 0. Before
 * output N the file $DECISIONS/N becomes the decision file, and $DECISIONS/conf.N the user's config file. Output
 * $INVALID_AT is not valid; after output $ABORT_AFTER the application fails. From output $PURE_FROM on outputs are
 * no checkpoints; from $SHARED_FROM on all ranks write the same files, from $SAME_NAMES_FROM on each writes files
 * of the same names in a directory of its own. $PAUSE_MS is how long the application computes after each.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <scr.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern int scr_flush, scr_flush_async, scr_prefix_size, scr_checkpoint_interval, scr_checkpoint_seconds;
extern int scr_cache_size, scr_copy_type, scr_set_size, scr_set_failures, scr_cache_bypass, scr_dataset_id;
extern int scr_need_checkpoint_count, scr_checkpoint_id, scr_halt_exit, scr_my_rank_world, scr_debug;
extern double scr_checkpoint_overhead;
extern char *scr_flush_type, *scr_group;

static int threads;      /* started in an output */
static char mask[256];   /* of the CPUs that they inherited */
static atomic_int nice_value; /* of the last one that ended */
static bool is_counting; /* between SCR_Complete_output and its return */

static void describe_mask(void)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    mask[0] = '\0';
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            const size_t used = strlen(mask);
            snprintf(mask + used, sizeof mask - used, "%s%d", used ? "," : "", cpu);
        }
    }
}

typedef struct {
    void *(*start)(void *);
    void *argument;
} work;

static void *run_and_see_nice(void *given)
{
    const work mine = *(work *)given;
    free(given);
    void *result = mine.start(mine.argument);
    nice_value = getpriority(PRIO_PROCESS, 0);
    return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (is_counting) {
        threads++;
        describe_mask();
        work *seen = malloc(sizeof *seen);
        *seen = (work){start, argument};
        return real(thread, attributes, run_and_see_nice, seen);
    }
    return real(thread, attributes, start, argument);
}

static unsigned long axl_buffer(void)
{
    const unsigned long *variable = dlsym(RTLD_DEFAULT, "axl_file_buf_size");
    return variable ? *variable : 0;
}

static int er_buffer(void)
{
    const int *variable = dlsym(RTLD_DEFAULT, "er_mpi_buf_size");
    return variable ? *variable : 0;
}

static int number_of(const char *variable)
{
    const char *value = getenv(variable);
    return value ? atoi(value) : 0;
}

static bool is_from(const char *variable, int number)
{
    return number_of(variable) != 0 && number >= number_of(variable);
}

static void make_directories(const char *file)
{
    char path[SCR_MAX_FILENAME];
    snprintf(path, sizeof path, "%s", file);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
}

static void write_files(const char *name, int number, int rank, int files, int bytes)
{
    const bool is_shared = is_from("SHARED_FROM", number), is_same = is_from("SAME_NAMES_FROM", number);
    char *data = malloc((size_t)bytes + 1);
    memset(data, is_shared ? 'a' : 'a' + rank, (size_t)bytes);
    for (int i = 0; i < files; i++) {
        char wanted[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
        if (is_shared) {
            snprintf(wanted, sizeof wanted, "%s/shared/data.%d", name, i);
        } else if (is_same) {
            snprintf(wanted, sizeof wanted, "%s/%d/data.%d", name, rank, i);
        } else {
            snprintf(wanted, sizeof wanted, "%s/rank_%d.%d", name, rank, i);
        }
        SCR_Route_file(wanted, path);
        make_directories(path);
        FILE *file = fopen(path, "w");
        if (file == NULL || fwrite(data, 1, (size_t)bytes, file) != (size_t)bytes || fclose(file) != 0) {
            fprintf(stderr, "cannot write %s\n", path);
        }
    }
    free(data);
}

static const char *text_of(const char *variable)
{
    const char *value = getenv(variable);
    return value ? value : "-";
}

static void report(int number, int result, double start_ms)
{
    char mine[1024] = "", root[1024];
    int same, all, valid = result == SCR_SUCCESS, all_valid;
    snprintf(mine, sizeof mine,
             "flush=%d async=%d prefix_size=%d interval=%d seconds=%d overhead=%g cache_size=%d copy=%d set=%d "
             "failures=%d bypass=%d type=%s axl=%lu er=%d dataset=%d checkpoint=%d needs=%d halt_exit=%d "
             "env_size=%s env_purge=%s group=%s",
             scr_flush, scr_flush_async, scr_prefix_size, scr_checkpoint_interval, scr_checkpoint_seconds,
             scr_checkpoint_overhead, scr_cache_size, scr_copy_type, scr_set_size, scr_set_failures, scr_cache_bypass,
             scr_flush_type, axl_buffer(), er_buffer(), scr_dataset_id, scr_checkpoint_id, scr_need_checkpoint_count,
             scr_halt_exit, text_of("SCR_CACHE_SIZE"), text_of("SCR_CACHE_PURGE"), scr_group);
    memcpy(root, mine, sizeof root);
    MPI_Bcast(root, sizeof root, MPI_CHAR, 0, MPI_COMM_WORLD);
    same = strcmp(root, mine) == 0;
    MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    MPI_Allreduce(&valid, &all_valid, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (scr_my_rank_world == 0) {
        printf("out %d same=%d valid=%d threads=%d mask=%s nice=%d start_ms=%.4f %s\n", number, all, all_valid, threads,
               mask[0] ? mask : "-", nice_value, start_ms, mine);
        fflush(stdout);
    }
}

/* The decision for output `number`, if there is one, is put in place of the last one. */
static void next_decision(int number)
{
    char path[1024];
    if (scr_my_rank_world == 0 && getenv("DECISIONS") != NULL) {
        snprintf(path, sizeof path, "%s/%d", getenv("DECISIONS"), number);
        rename(path, getenv("SCRTUNE_DECISION_FILE"));
        if (getenv("SCR_CONF_FILE") != NULL) {
            snprintf(path, sizeof path, "%s/conf.%d", getenv("DECISIONS"), number);
            rename(path, getenv("SCR_CONF_FILE"));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void restart(void)
{
    char name[SCR_MAX_FILENAME];
    int is_there = 0;
    if (SCR_Have_restart(&is_there, name) == SCR_SUCCESS && is_there) {
        SCR_Start_restart(name);
        SCR_Complete_restart(1);
    }
}

int main(int argc, char **argv)
{
    const int wanted = argc > 1 ? atoi(argv[1]) : 1;
    const int files = argc > 2 ? atoi(argv[2]) : 1, bytes = argc > 3 ? atoi(argv[3]) : 1000;
    const bool is_old = wanted < 0;
    int rank;
    if (chdir(getenv("SCR_PREFIX") ? getenv("SCR_PREFIX") : ".") != 0) {
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 4; i < argc; i++) {
        SCR_Config(argv[i]);
    }
    if (SCR_Init() != SCR_SUCCESS) {
        fprintf(stderr, "SCR_Init failed\n");
    }
    restart();
    for (int i = 1; i <= abs(wanted); i++) {
        char name[64];
        int flag = 0;
        threads = 0;
        mask[0] = '\0';
        SCR_Need_checkpoint(&flag);
        snprintf(name, sizeof name, is_old ? "old.%d" : "ckpt.%d", i);
        next_decision(i);
        const double start_s = MPI_Wtime();
        if (is_old) {
            SCR_Start_checkpoint();
        } else {
            SCR_Start_output(name, is_from("PURE_FROM", i) ? SCR_FLAG_OUTPUT : SCR_FLAG_CHECKPOINT);
        }
        const double start_ms = (MPI_Wtime() - start_s) * 1e3;
        write_files(name, i, rank, files, bytes);
        is_counting = true;
        const int is_valid = i != number_of("INVALID_AT");
        const int result = is_old ? SCR_Complete_checkpoint(is_valid) : SCR_Complete_output(is_valid);
        is_counting = false;
        report(i, result, start_ms);
        usleep((useconds_t)number_of("PAUSE_MS") * 1000);
        if (i == number_of("ABORT_AFTER")) {
            MPI_Abort(MPI_COMM_WORLD, 7);
        }
    }
    SCR_Finalize();
    MPI_Finalize();
    return 0;
}
