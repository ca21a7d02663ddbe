/* What of SCR and AXL libscrtune.so needs to time a flush, over processes of one machine: no MPI, and no bytes.
 *
 * SCR_Complete_output starts an asynchronous flush, SCR_Start_output and SCR_Finalize wait for it. What a rank
 * flushes is said by `files`: a letter and milliseconds for each file. c: a thread copies it; s: it is copied before
 * AXL_Dispatch returns; f: the copy fails; k: its thread is cancelled meanwhile; o: it is moved by other means.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int scr_my_rank_world, scr_ranks_world, scr_initialized, scr_dataset_id, scr_comm_world, scr_comm_node;
const char *files[64];
struct {
    pthread_barrier_t met;
    int is_false, numbers[64];
} *meeting; /* in memory that all ranks share */

int scr_alltrue(int value, int comm)
{
    (void)comm;
    if (!value) {
        __atomic_store_n(&meeting->is_false, 1, __ATOMIC_SEQ_CST);
    }
    pthread_barrier_wait(&meeting->met);
    const int result = !__atomic_load_n(&meeting->is_false, __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&meeting->met);
    meeting->is_false = 0;
    pthread_barrier_wait(&meeting->met);
    return result;
}

int scr_next_dataset(int count, const int *numbers, int *index, int *current)
{
    (void)count;
    (void)index;
    meeting->numbers[scr_my_rank_world] = *numbers;
    scr_alltrue(1, 0);
    *current = meeting->numbers[0];
    for (int rank = 1; rank < scr_ranks_world; rank++) {
        *current = meeting->numbers[rank] < *current ? meeting->numbers[rank] : *current;
    }
    return scr_alltrue(1, 0) ? 0 : 1;
}

int scr_str_bcast(char **text, int root, int comm) /* there is never a decision */
{
    (void)root;
    (void)comm;
    *text = NULL;
    return 0;
}

int MPI_Comm_size(int comm, int *size)
{
    (void)comm;
    *size = scr_ranks_world;
    return 0;
}

int DTCMP_Rankv_strings(int count, const char *names[], uint64_t *groups, uint64_t id[], uint64_t ranks[],
                        uint64_t rank[], unsigned flags, int comm)
{
    (void)names;
    (void)flags;
    (void)comm;
    for (int i = 0; i < count; i++) {
        id[i] = (uint64_t)i;
        ranks[i] = (uint64_t)scr_ranks_world;
        rank[i] = (uint64_t)scr_my_rank_world;
    }
    *groups = (uint64_t)count;
    return 0;
}

/* ---- AXL */

static struct {
    pthread_t thread;
    char source[64];
    char how;
    int is_started;
} copies[16];
static int copy_count;

int axl_file_copy(const char *source, const char *target, unsigned long buffer, int resume)
{
    (void)target;
    (void)buffer;
    (void)resume;
    const char *what = strrchr(source, '/') + 1;
    usleep((useconds_t)atoi(what + 1) * 1000);
    return *what == 'f';
}

static void *copy(void *source)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    axl_file_copy(source, "prefix", 1, 0);
    return NULL;
}

int AXL_Add(int id, const char *source, const char *target)
{
    (void)id;
    (void)target;
    snprintf(copies[copy_count].source, sizeof copies[0].source, "%s", source);
    copies[copy_count].how = strrchr(source, '/')[1];
    copies[copy_count++].is_started = 0;
    return 0;
}

int AXL_Dispatch(int id)
{
    (void)id;
    for (int i = 0; i < copy_count; i++) {
        if (copies[i].how == 's') {
            axl_file_copy(copies[i].source, "prefix", 1, 0);
        } else if (copies[i].how != 'o') {
            copies[i].is_started = pthread_create(&copies[i].thread, NULL, copy, copies[i].source) == 0;
        }
    }
    return 0;
}

static void wait_for_copies(void)
{
    for (int i = 0; i < copy_count; i++) {
        if (copies[i].is_started) {
            if (copies[i].how == 'k') {
                pthread_cancel(copies[i].thread);
            }
            pthread_join(copies[i].thread, NULL);
        }
    }
    copy_count = 0;
}

/* ---- SCR */

int scr_flush_async_start(void *index, int dataset)
{
    (void)index;
    char text[256], *place = NULL;
    snprintf(text, sizeof text, "%s", files[scr_my_rank_world]);
    scr_alltrue(1, 0);
    for (char *file = strtok_r(text, ",", &place); file != NULL; file = strtok_r(NULL, ",", &place)) {
        char source[64];
        snprintf(source, sizeof source, "/cache/scr.dataset.7/scr.dataset.%d/%s", dataset, file);
        AXL_Add(1, source, "prefix");
    }
    scr_alltrue(1, 0);
    return AXL_Dispatch(1);
}

int scr_flush_async_complete(void *index, int dataset)
{
    (void)index;
    (void)dataset;
    return 0;
}

static void wait_for_flush(void)
{
    if (scr_dataset_id > 0) {
        wait_for_copies();
        scr_alltrue(1, 0);
        usleep(atoi(getenv("LATE_MS")) * 1000);
        scr_flush_async_complete(NULL, scr_dataset_id);
    }
}

int SCR_Init(void)
{
    scr_initialized = 1;
    return 0;
}

int SCR_Start_output(const char *name, int flags)
{
    (void)name;
    (void)flags;
    wait_for_flush();
    scr_dataset_id++;
    return 0;
}

int SCR_Complete_output(int valid)
{
    const char *names[1] = {"file"};
    uint64_t groups, id[1], ranks[1], rank[1];
    (void)valid;
    DTCMP_Rankv_strings(1, names, &groups, id, ranks, rank, 0, scr_comm_world);
    scr_flush_async_start(NULL, scr_dataset_id);
    return 0;
}

int SCR_Finalize(void)
{
    wait_for_flush();
    return 0;
}
