/* When DFTracer looks: only between SCR_Start_output and SCR_Complete_output, where the application itself writes.
 *
 * A traced call costs 5 to 7 us, and SCR's copies within SCR_Complete_output may be 100,000 calls that follow from
 * its settings anyway. DFTracer 2 tests two exported flags first in every call, so a paused call costs what an
 * untraced one does, and tracing goes on when they are cleared (its finalize() crashes threads that are in a call).
 * They are set when this library is loaded, in launchers and shells too: what they do is no output.
 * An output is observed up to EVENT_LIMIT calls: a thread looks how full DFTracer's buffer is. The buffer is written
 * after the output's end, when nobody measures any more. Whether the next output is observed is asked of the files
 * `observe.off` and, but by the first rank of the node, `observe.first` beside the trace, by every rank for itself:
 * nothing here is collective.
 *
 * Nothing is touched unless scrtune itself has switched DFTracer on (SCRTUNE_OBSERVE=outputs): the user's own trace
 * goes on as they want it.
 */
#include "scrtune.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENT_LIMIT = 2000,         /* of one output and rank: some 13 ms */
    EVENT_BYTES = 200,          /* of a line, about */
    LOOK_NS = 4 * 1000 * 1000,  /* between two looks at the buffer */
    CALIBRATION_CALLS = 16,
    CALIBRATION_ROUNDS = 4,     /* the fastest counts: what disturbs another is no cost of tracing */
    LEAST_NS = 500,             /* of a traced call; what measures less was not traced */
    UNMEASURED_NS = 6000,       /* of a call where it cannot be measured */
    SLOTS = 1024,               /* DFTracer knows a descriptor by its number modulo this */
    NO_DESCRIPTOR = INT_MAX - 2 * SLOTS + 1, /* a multiple of it, beyond what fs.nr_open may be */
};

/* The beginning of DFTracer's BufferManager, the same in 2.1.0 and 2.2.0. */
typedef struct {
    char *bytes;
    size_t used;
    pthread_rwlock_t lock;
} trace_buffer;

/* What is found of it; all NULL where it is not ours to pause. A `***` is where a pointer to a std::shared_ptr is. */
static struct symbols {
    volatile unsigned char *stop_posix, *stop_stdio;
    void ***posix, ***stdio;
    trace_buffer ***buffer;
    void (*write_out)(trace_buffer *, size_t, bool);
} tracer;

static double event_cost_s = UNMEASURED_NS * 1e-9;
static bool is_calibrated;

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool is_open;      /* an output is being observed */
static bool has_watcher;
static size_t used_before; /* bytes in the buffer when it began */

static int find_core(struct dl_phdr_info *loaded, size_t size, void *path)
{
    (void)size;
    const char *slash = strrchr(loaded->dlpi_name, '/');
    if (slash == NULL || strncmp(slash, "/libdftracer_core", 17) != 0) {
        return 0;
    }
    snprintf(path, PATH_MAX, "%s", loaded->dlpi_name);
    return 1;
}

static void *tracer_core(void)
{
    char path[PATH_MAX] = "";
    dl_iterate_phdr(find_core, path);
    return path[0] != '\0' ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

static bool is_made(void ***object)
{
    return object != NULL && *object != NULL && **object != NULL;
}

/* One that has not begun to trace must not be paused: it would never begin. */
static bool find_tracer(void)
{
    void *core = tracer_core();
    if (core == NULL) {
        return false;
    }
    struct symbols found = {
        .stop_posix = dlsym(core, "_ZN6brahma13POSIXDFTracer10stop_traceE"),
        .stop_stdio = dlsym(core, "_ZN6brahma13STDIODFTracer10stop_traceE"),
        .posix = dlsym(core, "_ZZN6brahma13POSIXDFTracer12instance_refEvE15leaked_instance"),
        .stdio = dlsym(core, "_ZZN6brahma13STDIODFTracer12instance_refEvE15leaked_instance"),
        .buffer = dlsym(core, "_ZZN8dftracer9SingletonINS_13BufferManagerEE12instance_refEvE18singleton_instance"),
    };
    *(void **)&found.write_out = dlsym(core, "_ZN8dftracer13BufferManager28compress_and_write_if_neededEmb");
    if (found.stop_posix == NULL || found.stop_stdio == NULL ||
        !(is_made(found.posix) || is_made(found.stdio))) {
        return false;
    }
    tracer = found;
    return true;
}

/* NULL where this DFTracer keeps it elsewhere; then an output is observed to its end. */
static trace_buffer *buffer(void)
{
    if (tracer.write_out == NULL || tracer.buffer == NULL || *tracer.buffer == NULL) {
        return NULL;
    }
    trace_buffer *found = **tracer.buffer;
    return found != NULL && found->bytes != NULL ? found : NULL;
}

static size_t used(void)
{
    const trace_buffer *found = buffer();
    return found != NULL ? *(const volatile size_t *)&found->used : 0;
}

static void pause_tracer(bool is_paused)
{
    *tracer.stop_posix = *tracer.stop_stdio = is_paused;
}

/* The fastest round of calls on `directory`. */
static double fastest_round_s(const char *directory, bool is_traced)
{
    double fastest_s = 0;
    pause_tracer(!is_traced);
    const int file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
        const double began_s = monotonic_s();
        for (int i = 0; i < CALIBRATION_CALLS; i++) {
            lseek(file, 0, SEEK_CUR);
        }
        const double took_s = monotonic_s() - began_s;
        fastest_s = round == 0 || took_s < fastest_s ? took_s : fastest_s;
    }
    close(file);
    pause_tracer(true);
    return fastest_s;
}

/* What tracing adds to a call here, of calls on `directory`, which should be one that is traced. */
static double calibrated_s(const char *directory)
{
    const double untraced_s = fastest_round_s(directory, false), traced_s = fastest_round_s(directory, true);
    const double cost_s = (traced_s - untraced_s) / CALIBRATION_CALLS;
    return cost_s >= LEAST_NS * 1e-9 ? cost_s : UNMEASURED_NS * 1e-9;
}

/* A forked child has no watcher, and none of its calls are an output's. */
static void leave_to_parent(void)
{
    pause_tracer(true);
    is_open = has_watcher = false;
    pthread_mutex_init(&guard, NULL);
    pthread_cond_init(&opened, NULL); /* its waiter is gone: to signal it might wait for that one */
}

/* True when DFTracer is there, and scrtune's own; paused from then on. */
static bool has_tracer(void)
{
    if (tracer.stop_posix != NULL) {
        return true;
    }
    const char *wanted = getenv("SCRTUNE_OBSERVE");
    if (wanted == NULL || strcmp(wanted, "outputs") != 0 || !find_tracer()) {
        return false;
    }
    pause_tracer(true);
    pthread_atfork(NULL, NULL, leave_to_parent);
    return true;
}

__attribute__((constructor)) static void observe_load(void)
{
    has_tracer();
}

SCRTUNE_API void scrtune_observe_begin(const char *prefix)
{
    if (is_calibrated || !has_tracer()) {
        return;
    }
    is_calibrated = true;
    event_cost_s = calibrated_s(prefix != NULL ? prefix : ".");
    scrtune_observe_deliver();
}

/* Pauses when an output has had its share of calls. */
static void *watch(void *unused)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    (void)unused;
    pthread_mutex_lock(&guard);
    for (;;) {
        while (!is_open) {
            pthread_cond_wait(&opened, &guard);
        }
        pthread_mutex_unlock(&guard);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&guard);
        if (is_open && used() - used_before >= (size_t)EVENT_LIMIT * EVENT_BYTES) {
            pause_tracer(true);
            is_open = false;
        }
    }
    return NULL;
}

static bool start_watcher(void)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_started = pthread_create(&thread, NULL, watch, NULL) == 0 && pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

/* As the launcher of ranks says: MPI's own before Slurm's, which may have started the launcher alone. */
static bool is_first_of_node(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value != NULL) {
            return strcmp(value, "0") == 0;
        }
    }
    return true;
}

static bool is_beside_trace(const char *name)
{
    const char *log = getenv("DFTRACER_LOG_FILE");
    const char *slash = log != NULL ? strrchr(log, '/') : NULL;
    char path[PATH_MAX];
    if (slash == NULL || snprintf(path, sizeof path, "%.*s/%s", (int)(slash - log), log, name) >= PATH_MAX) {
        return true;
    }
    return access(path, F_OK) == 0;
}

static bool is_off(void)
{
    return is_beside_trace("observe.off") || (!is_first_of_node() && is_beside_trace("observe.first"));
}

/* A file that was closed during a pause is still known by its number, and the next file that gets it would be
 * taken for it: closing a descriptor that cannot be, but has the same slot, lets DFTracer forget it. */
static void forget_files(void)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        close(slot + NO_DESCRIPTOR);
    }
}

SCRTUNE_API void scrtune_observe_open(void)
{
    KEEP_ERRNO;
    if (!has_tracer() || is_off()) {
        return;
    }
    if (!has_watcher && buffer() != NULL) {
        has_watcher = start_watcher();
    }
    pause_tracer(false);
    forget_files();
    pthread_mutex_lock(&guard);
    used_before = used();
    is_open = true;
    pthread_cond_signal(&opened);
    pthread_mutex_unlock(&guard);
}

/* The lines in the buffer from `from` on. */
static size_t lines_from(size_t from)
{
    trace_buffer *found = buffer();
    size_t lines = 0;
    if (found == NULL) {
        return 0;
    }
    pthread_rwlock_rdlock(&found->lock);
    for (size_t i = from; found->bytes != NULL && i < found->used; i++) {
        lines += found->bytes[i] == '\n';
    }
    pthread_rwlock_unlock(&found->lock);
    return lines;
}

SCRTUNE_API size_t scrtune_observe_close(double *cost_s)
{
    *cost_s = 0;
    if (tracer.stop_posix == NULL) {
        return 0;
    }
    pthread_mutex_lock(&guard);
    is_open = false;
    pause_tracer(true);
    pthread_mutex_unlock(&guard);
    const size_t events = lines_from(used_before);
    *cost_s = (double)events * event_cost_s;
    used_before = used();
    return events;
}

SCRTUNE_API void scrtune_observe_deliver(void)
{
    trace_buffer *found = tracer.stop_posix != NULL ? buffer() : NULL;
    if (found == NULL || found->used == 0) {
        return;
    }
    KEEP_ERRNO;
    pthread_rwlock_wrlock(&found->lock);
    if (found->bytes != NULL && found->used > 0) {
        tracer.write_out(found, 0, true);
    }
    pthread_rwlock_unlock(&found->lock);
    used_before = 0;
}

/* ---- streams that are made of a descriptor
 *
 * DFTracer knows a FILE * only by the fopen() that it saw, and so sees nothing of what numpy's tofile() and save()
 * write (dup(), fdopen(), fwrite()). While an output is traced, a stream of fdopen() is made known: fopen() is called
 * for its file, which DFTracer stands in front of, and what DFTracer calls in turn is the fopen() below. That opens
 * nothing, and returns the stream there is already. */

/* The stream that this thread makes known just now. (This model asks nothing of the loader, and allocates nothing.) */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    FILE *stream;
    const char *path;
} known;

SCRTUNE_API FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    /* DFTracer opens files of its own, too */
    if (known.stream != NULL && path != NULL && strcmp(path, known.path) == 0) {
        return known.stream;
    }
    if (real == NULL) {
        RESOLVE(real, real_function("fopen"));
    }
    return real(path, mode);
}

static void make_known(FILE *stream, int file, const char *mode)
{
    char link[32], path[PATH_MAX];
    KEEP_ERRNO;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0 && path[0] == '/') { /* no pipe, and no socket */
        path[length] = '\0';
        known.stream = stream;
        known.path = path;
        (void)!fopen(path, mode);
        known.stream = NULL;
    }
}

SCRTUNE_API FILE *fdopen(int file, const char *mode)
{
    static FILE *(*real)(int, const char *);
    if (real == NULL) {
        RESOLVE(real, real_function("fdopen"));
    }
    FILE *stream = real(file, mode);
    if (stream != NULL && tracer.stop_stdio != NULL && !*tracer.stop_stdio) {
        make_known(stream, file, mode);
    }
    return stream;
}
