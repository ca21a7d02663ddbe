/* When an asynchronous flush ended, which SCR notices only at one of its later calls.
 *
 * AXL copies each file by a call of axl_file_copy, in threads of its own or not: the return from the last of them is
 * the end on this rank. When SCR finds that all ranks' copies have ended, which it does collectively, the longest of
 * them is found by a reduction of SCR's own, for the smallest of dataset numbers. A rank measures from its own AXL_Dispatch, at which SCR has just brought the ranks together: their clocks are not compared.
 * A transfer that does without axl_file_copy (DataWarp, IBM's BBAPI), and one that failed or was cancelled, leaves
 * files without a copy: then nothing is known, on any rank.
 */
#include "scrtune.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_S 1e-5
enum { FLUSH_LIMIT = 16, UNITS_LIMIT = 2000000000 };

/* A flush that is under way; AXL's threads write the last two. */
typedef struct {
    atomic_int dataset; /* 0: none */
    int files;
    double started_s, dispatched_s; /* monotonic */
    atomic_int copied;
    _Atomic double ended_s;
} flush;

static flush flushes[FLUSH_LIMIT];
static flush *starting;

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

void flush_start(int dataset)
{
    if (dataset <= 0 || flush_of(dataset) != NULL) { /* it is under way */
        return;
    }
    starting = &flushes[(unsigned)dataset % FLUSH_LIMIT];
    starting->files = 0;
    starting->started_s = monotonic_s();
    starting->dispatched_s = 0;
    starting->copied = 0;
    starting->ended_s = 0;
    starting->dataset = dataset;
}

void flush_add(void)
{
    if (starting != NULL) {
        starting->files++;
    }
}

void flush_dispatch(void)
{
    if (starting != NULL) {
        starting->dispatched_s = starting->ended_s = monotonic_s();
    }
}

void flush_started(void)
{
    if (starting != NULL && starting->dispatched_s == 0) {
        starting->dataset = 0;
    }
    starting = NULL;
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

/* The thread may be cancelled anywhere: it holds nothing. */
static void copied(flush *of)
{
    const double now_s = monotonic_s();
    double before_s = of->ended_s;
    while (before_s < now_s && !atomic_compare_exchange_weak(&of->ended_s, &before_s, now_s)) {
    }
    of->copied++;
}

int flush_copy(file_copy real, const char *source, const char *target, unsigned long buffer, long more)
{
    const int result = real(source, target, buffer, more);
    const int before = errno;
    flush *of = flush_of(dataset_of(source));
    if (of != NULL && result == 0) {
        copied(of);
    }
    errno = before;
    return result;
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

void flush_complete(int dataset)
{
    const flush *of = flush_of(dataset);
    if (job.can_compare) {
        const int before = errno;
        const bool is_known = of != NULL && of->copied == of->files;
        const int least = least_of_all(is_known ? rank_of(of->ended_s - of->dispatched_s) : 0);
        if (of != NULL) {
            const double longest_s = (UNITS_LIMIT - least) * UNIT_S;
            event_flushed(dataset, least > 0 ? of->dispatched_s - of->started_s + longest_s : -1);
        }
        errno = before;
    }
    if (of != NULL) {
        flushes[of - flushes].dataset = 0;
    }
}
