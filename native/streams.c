/* Streams that are made of a descriptor: DFTracer knows a FILE * only by the fopen() that it saw, and so sees
 * nothing of what numpy's tofile() and save() write (dup(), fdopen(), fwrite()). While an output is traced, a stream
 * of fdopen() is made known: fopen() is called for its file, which DFTracer stands in front of, and what DFTracer
 * calls in turn is the fopen() below. That opens nothing, and returns the stream there is already.
 */
#include "scrtune.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The stream that this thread makes known just now. (This model asks nothing of the loader, and allocates nothing.) */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    FILE *stream;
    const char *path;
} known;

SCRTUNE_API FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    if (known.stream != NULL && path != NULL && strcmp(path, known.path) == 0) { /* DFTracer opens files of its own, too */
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
    const int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0 && path[0] == '/') { /* no pipe, and no socket */
        path[length] = '\0';
        known.stream = stream;
        known.path = path;
        (void)!fopen(path, mode);
        known.stream = NULL;
    }
    errno = before;
}

SCRTUNE_API FILE *fdopen(int file, const char *mode)
{
    static FILE *(*real)(int, const char *);
    if (real == NULL) {
        RESOLVE(real, real_function("fdopen"));
    }
    FILE *stream = real(file, mode);
    if (stream != NULL && observe_is_tracing()) {
        make_known(stream, file, mode);
    }
    return stream;
}
