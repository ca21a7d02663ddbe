/* Drop-behind: the page cache gives up checkpoints that are on the storage and that newer ones have replaced.
 *
 * Nobody reads them but after a failure, and yet they fill the memory: each checkpoint past the cache, and each flush,
 * takes new pages. In a virtual machine the first use of a page goes through the hypervisor, which takes longer than to
 * fill it. So an output past the cache is brought to the storage when it is complete, by a thread at nice 19 (AXL syncs
 * what it flushes), and those before the newest leave their pages when the next one begins: pages that lie free until
 * then may go back to the hypervisor, which takes them within seconds where the guest reports free pages
 * (mm/page_reporting.c). That is another thread's, at the rank's own priority. The newest stays in memory for a
 * restart. The application waits for none of it.
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
    KEPT = 4, /* outputs: the open one, the newest, the one before, and one that was not on the storage in time */
    PATHS_LIMIT = 1 << 20, /* bytes of an output's paths: what is beyond stays in the page cache */
};

/* Paths, one after the other, each with its 0. */
typedef struct {
    char *text;
    size_t length;
} paths;

/* What a thread does to files; only one at a time does the same. */
typedef struct {
    void (*advise)(int file);
    int nice; /* 0: the rank's own */
    atomic_bool is_busy;
    paths files;
} work;

static bool is_wanted;
static paths outputs[KEPT]; /* the newest first: the one that is open, or was last */

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
    for (int i = 0; i < KEPT; i++) {
        clear(&outputs[i]);
    }
}

static bool is_checkpoint(void)
{
    return (job.kind & SCR_FLAG_CHECKPOINT) != 0;
}

static bool is_past_cache(void)
{
    return is_checkpoint() && scr_int("scr_cache_bypass", 0) == 1;
}

static void remember(const char *file)
{
    KEEP_ERRNO;
    if (job.is_engaged && outputs[0].length < PATHS_LIMIT) {
        append(&outputs[0], file, strlen(file) + 1);
    }
}

SCRTUNE_API int SCR_Route_file(const char *name, char *file)
{
    REAL(SCR_Route_file, SCR_FAILURE);
    const int result = real(name, file);
    if (result == SCR_SUCCESS && is_past_cache() && scr_int("scr_in_output", 0) != 0) {
        remember(file);
    }
    return result;
}

/* Whoever leaves the cache finds the pages of checkpoints that were flushed from there, too. */
void behind_flushes(const char *target)
{
    const char *prefix = scr_text("scr_prefix");
    if (is_checkpoint() && prefix != NULL && strncmp(target, prefix, strlen(prefix)) == 0) {
        remember(target);
    }
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

static work dropping = {.advise = drop};
static work writing = {.advise = begin_writing, .nice = 19};

static void work_end(work *done)
{
    clear(&done->files);
    done->is_busy = false;
}

static void *work_run(void *given)
{
    work *mine = given;
    if (mine->nice > 0) {
        setpriority(PRIO_PROCESS, 0, mine->nice); /* Linux: 0 is this thread */
    }
    each_file(&mine->files, mine->advise);
    work_end(mine);
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

/* With the files of `count` outputs from `first` on. */
static void start_work(work *mine, int first, int count)
{
    if (!is_wanted || mine->is_busy) {
        return;
    }
    mine->is_busy = true;
    bool is_ready = true;
    for (int i = first; i < first + count; i++) {
        is_ready = is_ready && append(&mine->files, outputs[i].text, outputs[i].length);
    }
    if (!is_ready || mine->files.length == 0 || !start_thread(mine)) {
        work_end(mine);
    }
}

void behind_starts(void)
{
    if (!is_checkpoint()) { /* it replaces none */
        return;
    }
    if (outputs[0].length > 0) { /* else it was not flushed, and replaced none there */
        clear(&outputs[KEPT - 1]);
        memmove(outputs + 1, outputs, (KEPT - 1) * sizeof *outputs);
        outputs[0] = (paths){NULL, 0};
    }
    start_work(&dropping, 2, KEPT - 2);
}

void behind_completed(void)
{
    if (is_past_cache()) {
        start_work(&writing, 0, 1);
    }
}

void behind_use(bool wanted)
{
    is_wanted = wanted;
}
