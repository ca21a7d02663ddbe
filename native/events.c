/* What happened, as lines of JSON for scrtune's forwarder. A line is one write(2) to a file that is opened for
 * it: a descriptor that is kept could become another file of the application's. */
#include "scrtune.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

enum { LINE_LIMIT = 64 * 1024, END_SPACE = 8 };

static char line[LINE_LIMIT];
static size_t used;
static bool is_full; /* something did not fit: nothing is written */

static void put_bytes(const char *bytes, size_t length)
{
    if (length + END_SPACE > sizeof line - used) {
        is_full = true;
        return;
    }
    memcpy(line + used, bytes, length);
    used += length;
}

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
    char piece[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    put_bytes(piece, length < 0 ? 0 : strlen(piece));
}

/* The reader takes care of what is no UTF-8. */
static void put_text(const char *text)
{
    put_bytes("\"", 1);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            put("\\%c", *text);
        } else if ((unsigned char)*text < 0x20) {
            put("\\u%04x", (unsigned int)*text);
        } else {
            put_bytes(text, 1);
        }
    }
    put_bytes("\"", 1);
}

static void put_field(const event_field *given)
{
    /* with microseconds, whatever the decimal point of the application's locale is */
    const long long micros = (long long)(given->seconds * 1e6 + 0.5);
    put(",\"%s\":", given->name);
    switch (given->form) {
    case AS_SECONDS:
        put("%lld.%06lld", micros / 1000000, micros % 1000000);
        break;
    case AS_NUMBER:
        put("%lld", given->number);
        break;
    case AS_FLAG:
        put("%s", given->number != 0 ? "true" : "false");
        break;
    case AS_JSON:
        put("%s", given->text);
        break;
    case AS_TEXT:
        put_text(given->text != NULL ? given->text : "");
        break;
    }
}

static void begin(const char *type, size_t count, const event_field fields[])
{
    used = 0;
    is_full = !job.is_root; /* which alone writes */
    put("{\"type\":\"%s\"", type);
    for (size_t i = 0; i < count; i++) {
        if (fields[i].name != NULL) {
            put_field(&fields[i]);
        }
    }
}

/* A torn line, on a full disk, is ended by the next one. */
static void write_line(int file)
{
    static bool is_torn;
    const size_t skip = is_torn ? 0 : 1;
    memmove(line + 1, line, used);
    line[0] = '\n';
    memcpy(line + used + 1, "}\n", 2);
    const size_t length = used + 3 - skip;
    const ssize_t written = write(file, line + skip, length);
    is_torn = written > 0 ? (size_t)written != length : is_torn;
}

/* The kernel ends a process that writes behind its limit of the size of files. */
static bool has_room(const struct stat *now)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)now->st_size + LINE_LIMIT);
}

static void end(void)
{
    KEEP_ERRNO;
    const char *path = getenv("SCRTUNE_EVENTS_FILE");
    if (path == NULL || path[0] == '\0' || is_full) {
        return;
    }
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW;
    const int file = open(path, flags, S_IRUSR | S_IWUSR);
    struct stat now;
    if (file >= 0) {
        if (fstat(file, &now) == 0 && S_ISREG(now.st_mode) && has_room(&now)) {
            write_line(file);
        }
        close(file);
    }
}

void event_write(const char *type, size_t count, const event_field fields[])
{
    begin(type, count, fields);
    end();
}

/* What SCR was launched with; a password is nobody's business. */
static void put_environment(void)
{
    const char *separator = "";
    put(",\"environment\":{");
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *value = strchr(*entry, '=');
        const size_t start = used;
        char name[128];
        if (value == NULL || strncmp(*entry, "SCR_", 4) != 0 || (size_t)(value - *entry) >= sizeof name ||
            strncmp(*entry, "SCR_LOG_DB_PASS=", 16) == 0) {
            continue;
        }
        memcpy(name, *entry, (size_t)(value - *entry));
        name[value - *entry] = '\0';
        put("%s", separator);
        put_text(name);
        put(":");
        put_text(value + 1);
        if (used > LINE_LIMIT - 16 * 1024 || is_full) {
            used = start;
            is_full = false;
        } else {
            separator = ",";
        }
    }
    put("}");
}

static void put_capabilities(void)
{
    static const char *const names[] = {"live", "live on rank 0", "re-init", "launch", "inert"};
    put(",\"capabilities\":{");
    for (size_t i = 0; i < lever_count; i++) {
        put("%s\"%s\":\"%s\"", i == 0 ? "" : ",", levers[i].name, names[job.classes[i]]);
    }
    put("}");
}

void event_started(double init_s)
{
    char *(*version)(void);
    char host[256] = "", directory[4096];
    RESOLVE(version, scr_symbol("SCR_Get_version"));
    gethostname(host, sizeof host - 1);
    const event_field fields[] = {
        SECONDS("time_s", epoch_s()),
        SECONDS("init_s", init_s),
        NUMBER("ranks", scr_int("scr_ranks_world", 0)),
        NUMBER(ONLY(job.nodes > 0, "nodes"), job.nodes),
        TEXT("host", host),
        NUMBER("pid", getpid()),
        TEXT("cwd", getcwd(directory, sizeof directory)),
        TEXT("prefix", scr_text("scr_prefix")),
        TEXT("cache", scr_text("scr_cache_base")),
        TEXT("version", version != NULL ? version() : NULL),
    };
    begin("started", COUNT(fields), fields);
    put_capabilities();
    put_environment();
    end();
}
