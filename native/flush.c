/* AXL's threads, which copy files in a flush: where they run, and when the last of them has ended an asynchronous one,
 * which SCR notices only at one of its later calls.
 *
 * AXL copies each file by a call of axl_file_copy, in threads of its own or not: the return from the last of them is
 * the end on this rank. When SCR finds that all ranks' copies have ended, which it does collectively, the longest of
 * them is found by a reduction of SCR's own, for the smallest of dataset numbers. A rank measures
 * from its own AXL_Dispatch, at which SCR has just brought the ranks together: their clocks are not compared.
 * A transfer that does without axl_file_copy (DataWarp, IBM's BBAPI), and one that failed or was cancelled, leaves
 * files without a copy: then nothing is known, on any rank.
 */
#include "scrtune.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#define UNIT_S 1e-5
/* axl_file_copy; the last argument may be a pointer. */
typedef int (*file_copy)(const char *, const char *, unsigned long, long);

enum { FLUSH_LIMIT = 16, UNITS_LIMIT = 2000000000 };

/* A flush that is under way; AXL's threads write what is atomic, but for the dataset. */
typedef struct {
    atomic_int dataset; /* 0: none */
    int files;
    pthread_t dispatcher; /* the thread that starts AXL's */
    double started_s, dispatched_s; /* monotonic */
    atomic_int copied, timed; /* files, and those of which it is known what they took of cores */
    _Atomic double ended_s;
    atomic_llong cpu_us, delay_us;
} flush;

static flush flushes[FLUSH_LIMIT];
static flush *starting; /* between SCR's start of a flush and its return from there */

static struct {
    cpus mask, before;
    bool has_mask;
    unsigned int threads;
    atomic_int nice; /* 0: the one that is inherited */
} wanted;

static flush *flush_of(int dataset)
{
    flush *found = &flushes[(unsigned)dataset % FLUSH_LIMIT];
    return dataset > 0 && found->dataset == dataset ? found : NULL;
}

void flush_forget(void)
{
    for (int i = 0; i < FLUSH_LIMIT; i++) {
        flushes[i].dataset = 0;
    }
}

void flush_use_cpus(const cpus *mask)
{
    wanted.has_mask = mask != NULL;
    if (mask != NULL) {
        wanted.mask = *mask;
    }
}

void flush_use_nice(int nice)
{
    wanted.nice = nice;
}

void flush_use_threads(unsigned int count)
{
    wanted.threads = count;
}

SCRTUNE_API int scr_flush_async_start(void *index, int dataset)
{
    REAL(scr_flush_async_start, SCR_FAILURE);
    if (dataset > 0 && flush_of(dataset) == NULL) { /* it is not under way */
        starting = &flushes[(unsigned)dataset % FLUSH_LIMIT];
        starting->files = 0;
        starting->started_s = monotonic_s();
        starting->dispatched_s = 0;
        starting->copied = starting->timed = 0;
        starting->cpu_us = starting->delay_us = 0;
        starting->ended_s = 0;
        starting->dataset = dataset;
    }
    const int result = real(index, dataset);
    if (starting != NULL && starting->dispatched_s == 0) {
        starting->dataset = 0;
    }
    starting = NULL;
    return result;
}

SCRTUNE_API int AXL_Add(int id, const char *source, const char *target)
{
    REAL(AXL_Add, -1);
    if (starting != NULL) {
        starting->files++;
    }
    behind_flushes(target);
    return real(id, source, target);
}

/* SCR's cache has the files of a dataset in a directory scr.dataset.N. */
static int dataset_of(const char *path)
{
    static const char directory[] = "/scr.dataset.";
    const char *last = NULL;
    for (const char *at = path; at != NULL && (at = strstr(at, directory)) != NULL; at++) {
        last = at + sizeof directory - 1;
    }
    return last != NULL ? atoi(last) : 0;
}

static void used(flush *of, const core_time *before)
{
    core_time now;
    if (before->cpu_s > 0 && core_time_now(&now)) {
        of->cpu_us += (long long)((now.cpu_s - before->cpu_s) * 1e6);
        of->delay_us += (long long)((now.run_delay_s - before->run_delay_s) * 1e6);
        of->timed++;
    }
}

/* The thread may be cancelled anywhere: it holds nothing. */
static void copied(flush *of, const core_time *before)
{
    used(of, before);
    const double now_s = monotonic_s();
    double before_s = of->ended_s;
    while (before_s < now_s && !atomic_compare_exchange_weak(&of->ended_s, &before_s, now_s)) {
    }
    of->copied++;
}

/* AXL's own; looked up once, since a thread of AXL's may be cancelled at any instruction. */
static file_copy real_copy(void)
{
    static _Atomic(file_copy) known;
    file_copy real = known;
    if (real == NULL) {
        RESOLVE(real, real_function("axl_file_copy"));
        known = real;
    }
    return real;
}

/* A thread that AXL started for this flush leaves the cores to the computation. It ends with the flush: nothing has to
 * be undone, which would take a privilege. */
static void yield_cores(const flush *of)
{
    const int nice = wanted.nice;
    if (of != NULL && nice > 0 && !pthread_equal(pthread_self(), of->dispatcher) &&
        getpriority(PRIO_PROCESS, 0) < nice) {
        setpriority(PRIO_PROCESS, 0, nice); /* Linux: 0 is this thread */
    }
}

SCRTUNE_API int axl_file_copy(const char *source, const char *target, unsigned long buffer, long more)
{
    const file_copy real = real_copy();
    const int dataset = dataset_of(source);
    yield_cores(flush_of(dataset));
    core_time before = {0};
    if (job.is_root && flush_of(dataset) != NULL) {
        core_time_now(&before);
    }
    const int result = real != NULL ? real(source, target, buffer, more) : -1;
    KEEP_ERRNO;
    flush *of = flush_of(dataset);
    if (of != NULL && result == 0) {
        copied(of, &before);
    }
    return result;
}

/* AXL's threads inherit the mask of the thread that starts them, which is here: nothing else of SCR, and no MPI, runs
 * on their CPUs. The kernel leaves out CPUs that this process may not use, and refuses when none is left. */
SCRTUNE_API int AXL_Dispatch(int id)
{
    REAL(AXL_Dispatch, -1);
    real_copy();
    if (starting != NULL) {
        starting->dispatcher = pthread_self();
        starting->dispatched_s = starting->ended_s = monotonic_s();
    }
    const int errno_then = errno;
    const bool is_changed = wanted.has_mask &&
                            sched_getaffinity(0, sizeof wanted.before, wanted.before.words) == 0 &&
                            sched_setaffinity(0, sizeof wanted.mask, wanted.mask.words) == 0;
    errno = errno_then;
    const int result = real(id);
    KEEP_ERRNO;
    if (is_changed) {
        sched_setaffinity(0, sizeof wanted.before, wanted.before.words);
    }
    return result;
}

SCRTUNE_API unsigned int axl_get_nprocs(void)
{
    if (wanted.threads > 0) {
        return wanted.threads;
    }
    REAL(axl_get_nprocs, (unsigned int)get_nprocs());
    return real();
}

bool flush_is_timed(int dataset)
{
    return job.can_compare && flush_of(dataset) != NULL;
}

/* Less means longer, for the whole of SCR's ids; the least of all: not known. */
static int rank_of(double seconds)
{
    return seconds < UNITS_LIMIT * UNIT_S ? UNITS_LIMIT - (int)(seconds / UNIT_S) : 0;
}

/* All ranks' copies of `dataset` have ended: report when. Collective. */
static void flush_ended(int dataset)
{
    KEEP_ERRNO;
    flush *of = flush_of(dataset);
    if (job.can_compare) {
        const bool is_known = of != NULL && of->copied == of->files;
        const int least = least_of_all(is_known ? rank_of(of->ended_s - of->dispatched_s) : 0);
        if (of != NULL) {
            const double longest_s = (UNITS_LIMIT - least) * UNIT_S;
            const bool is_timed = of->files > 0 && of->timed == of->files;
            EVENT("flushed", NUMBER("dataset", dataset),
                  SECONDS(ONLY(least > 0, "seconds"), of->dispatched_s - of->started_s + longest_s),
                  SECONDS(ONLY(is_timed, "cpu_s"), (double)of->cpu_us * 1e-6),
                  SECONDS(ONLY(is_timed, "run_delay_s"), (double)of->delay_us * 1e-6));
        }
    }
    if (of != NULL) {
        of->dataset = 0;
    }
}

SCRTUNE_API int scr_flush_async_complete(void *index, int dataset)
{
    REAL(scr_flush_async_complete, SCR_FAILURE);
    flush_ended(dataset);
    return real(index, dataset);
}
