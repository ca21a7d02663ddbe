/* Drop-behind: the page cache gives up checkpoints that are on the storage and that newer ones have replaced.
 *
 * Nobody reads them but after a failure, and yet they fill the memory: each checkpoint past the cache takes new pages.
 * In a virtual machine the first use of a page goes through the hypervisor, which takes longer than to fill it. So
 * each output is brought to the storage, and those before it, which are there by then, leave their pages to the next.
 * The newest stays in memory for a restart. A thread does it, at nice 19 but for the first output with it: the
 * application waits for none of it.
 */
#include "scrtune.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    KEPT = 3, /* outputs: the newest, the one before, and one that may not have been on the storage then */
    PATHS_LIMIT = 1 << 20, /* bytes of an output's paths: what is beyond stays in the page cache */
};

/* Paths, one after the other, each with its 0. */
typedef struct {
    char *text;
    size_t length;
} paths;

typedef struct {
    paths newest, older;
    bool yields; /* to all that computes */
} work;

static bool is_wanted;
static paths outputs[KEPT]; /* the newest first: the one that is open, or was last */
static atomic_bool is_busy; /* a thread is at work */

static bool append(paths *to, const char *text, size_t length)
{
    if (length == 0) {
        return true;
    }
    char *longer = realloc(to->text, to->length + length);
    if (longer == NULL) {
        return false;
    }
    memcpy(longer + to->length, text, length);
    *to = (paths){longer, to->length + length};
    return true;
}

static void clear(paths *given)
{
    free(given->text);
    *given = (paths){NULL, 0};
}

void behind_forget(void)
{
    is_wanted = false;
    for (int i = 0; i < KEPT; i++) {
        clear(&outputs[i]);
    }
}

static bool is_checkpoint(void)
{
    return (job.kind & SCR_FLAG_CHECKPOINT) != 0;
}

void behind_started(void)
{
    if (!is_checkpoint()) { /* it replaces none */
        return;
    }
    clear(&outputs[KEPT - 1]);
    memmove(outputs + 1, outputs, (KEPT - 1) * sizeof *outputs);
    outputs[0] = (paths){NULL, 0};
}

static bool is_past_cache(void)
{
    return is_checkpoint() && scr_int("scr_in_output", 0) != 0 && scr_int("scr_cache_bypass", 0) == 1;
}

SCRTUNE_API int SCR_Route_file(const char *name, char *file)
{
    REAL(SCR_Route_file, SCR_FAILURE);
    const int result = real(name, file);
    if (job.is_engaged && result == SCR_SUCCESS && outputs[0].length < PATHS_LIMIT && is_past_cache()) {
        KEEP_ERRNO;
        append(&outputs[0], file, strlen(file) + 1);
    }
    return result;
}

/* By system calls: DFTracer, which may stand in front of open(), is not to count these as the application's. */
static void each_file(const paths *given, void (*advise)(int file))
{
    const char *end = given->text + given->length;
    for (const char *path = given->text; path < end; path += strlen(path) + 1) {
        const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (file >= 0) {
            advise((int)file);
            syscall(SYS_close, (int)file);
        }
    }
}

static void begin_writing(int file)
{
    sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static void drop(int file)
{
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

static void work_free(work *done)
{
    clear(&done->newest);
    clear(&done->older);
    free(done);
    is_busy = false;
}

static void *work_run(void *given)
{
    work *mine = given;
    if (mine->yields) {
        setpriority(PRIO_PROCESS, 0, 19); /* Linux: 0 is this thread */
    }
    each_file(&mine->older, drop);
    each_file(&mine->newest, begin_writing);
    work_free(mine);
    return NULL;
}

/* The thread gets no signal: it is not the application's. */
static bool start_thread(work *mine)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all);
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_started = pthread_create(&thread, &attributes, work_run, mine) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return is_started;
}

static void start_work(bool yields)
{
    if (!is_wanted || is_busy) {
        return;
    }
    work *mine = calloc(1, sizeof *mine);
    if (mine == NULL) {
        return;
    }
    is_busy = true;
    mine->yields = yields;
    bool is_ready = append(&mine->newest, outputs[0].text, outputs[0].length);
    for (int i = 1; i < KEPT; i++) {
        is_ready = is_ready && append(&mine->older, outputs[i].text, outputs[i].length);
    }
    if (!is_ready || mine->newest.length + mine->older.length == 0 || !start_thread(mine)) {
        work_free(mine);
    }
}

void behind_completed(void)
{
    start_work(true);
}

/* The output that is about to begin shall find the pages of those before it, though all cores are busy. */
void behind_use(bool wanted)
{
    const bool begins = wanted && !is_wanted;
    is_wanted = wanted;
    if (begins) {
        start_work(false);
    }
}
