/* What happened, as lines of JSON for scrtune's forwarder. A line is one write(2) to a file that is opened for
 * it: a descriptor that is kept could become another file of the application's. */
#include "scrtune.h"

#include <errno.h>
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
    if (is_full) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    put_bytes(piece, length < 0 ? 0 : strlen(piece));
}

/* Seconds, with microseconds, whatever the decimal point of the application's locale is. */
static void put_seconds(const char *name, double seconds)
{
    const long long micros = (long long)(seconds * 1e6 + 0.5);
    put(",\"%s\":%lld.%06lld", name, micros / 1000000, micros % 1000000);
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

static void put_field(const char *name, const char *text)
{
    put(",\"%s\":", name);
    put_text(text != NULL ? text : "");
}

static void begin(const char *type)
{
    used = 0;
    is_full = !job.is_root; /* which alone writes */
    put("{\"type\":\"%s\"", type);
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
    const int before = errno;
    const char *path = getenv("SCRTUNE_EVENTS_FILE");
    if (path != NULL && path[0] != '\0' && !is_full) {
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
    errno = before;
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
    char host[256] = "";
    char directory[4096];
    RESOLVE(version, scr_symbol("SCR_Get_version"));
    gethostname(host, sizeof host - 1);
    begin("started");
    put_seconds("time_s", epoch_s());
    put_seconds("init_s", init_s);
    put(",\"ranks\":%d", scr_int("scr_ranks_world", 0));
    if (job.nodes > 0) {
        put(",\"nodes\":%d", job.nodes);
    }
    put_field("host", host);
    put(",\"pid\":%ld", (long)getpid());
    put_field("cwd", getcwd(directory, sizeof directory));
    put_field("prefix", scr_text("scr_prefix"));
    put_field("cache", scr_text("scr_cache_base"));
    put_field("version", version != NULL ? version() : NULL);
    put_capabilities();
    put_environment();
    end();
}

void event_output(const output *done, int dataset, bool is_valid, files_seen files)
{
    begin("output");
    put(",\"dataset\":%d", dataset);
    put_field("name", done->name);
    put(",\"checkpoint\":%s", (done->kind & SCR_FLAG_CHECKPOINT) != 0 ? "true" : "false");
    put(",\"valid\":%s", is_valid ? "true" : "false");
    if (files != FILES_UNKNOWN) {
        put(",\"shared\":%s", files == FILES_MEET ? "true" : "false");
    }
    put(",\"generation\":%ld", job.generation < 0 ? 0 : job.generation);
    put_seconds("entered_s", done->entered_s);
    put_seconds("apply_s", done->apply_s);
    put_seconds("opened_s", done->opened_s);
    put_seconds("closing_s", done->closing_s);
    put_seconds("closed_s", epoch_s());
    if (done->observed > 0) {
        put(",\"observed\":%zu", done->observed);
        put_seconds("observe_s", done->observe_s);
    }
    if (flush_is_timed(dataset)) {
        put(",\"flush_timed\":true");
    }
    end();
}

/* `seconds` are negative when they are not known. */
void event_flushed(int dataset, double seconds)
{
    begin("flushed");
    put(",\"dataset\":%d", dataset);
    if (seconds >= 0) {
        put_seconds("seconds", seconds);
    }
    end();
}

void event_asked(double began_s, double ended_s, bool is_due)
{
    begin("asked");
    put_seconds("began_s", began_s);
    put_seconds("ended_s", ended_s);
    put(",\"due\":%s", is_due ? "true" : "false");
    end();
}

void event_step(long long step, double start_s, double end_s)
{
    begin("step");
    put(",\"step\":%lld", step);
    put_seconds("start_s", start_s);
    put_seconds("end_s", end_s);
    end();
}

void event_restart(const char *name, bool is_valid, double entered_s)
{
    begin("restart");
    put_field("name", name);
    put(",\"valid\":%s", is_valid ? "true" : "false");
    put_seconds("entered_s", entered_s);
    put_seconds("closed_s", epoch_s());
    end();
}

void event_applied(long generation, apply_how how, double seconds)
{
    begin("applied");
    put_seconds("time_s", epoch_s());
    put(",\"generation\":%ld", generation);
    put_field("how", how == HOW_REINIT ? "re-init" : "live");
    put_seconds("seconds", seconds);
    end();
}

void event_refused(long generation, const char *why, bool is_bypass_back)
{
    begin("refused");
    put_seconds("time_s", epoch_s());
    put(",\"generation\":%ld", generation < 0 ? 0 : generation);
    put_field("why", why);
    if (is_bypass_back) {
        put(",\"in_force\":{\"SCR_CACHE_BYPASS\":1}");
    }
    end();
}

void event_ended(void)
{
    begin("ended");
    put_seconds("time_s", epoch_s());
    end();
}
