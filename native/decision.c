/* Every parameter that a decision may hold, and the decision file. The table is made of scr_config/parameters.json
 * (levers_table.py). scr_config/decision.py has the form of the file, and reads and refuses the same texts. */
#include "scrtune.h"

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const lever levers[] = {
#include "levers.inc"
};

const size_t lever_count = COUNT(levers);
_Static_assert(COUNT(levers) <= LEVER_LIMIT, "make LEVER_LIMIT larger");

const lever *lever_named(const char *name)
{
    for (size_t i = 0; i < lever_count; i++) {
        if (strcmp(levers[i].name, name) == 0) {
            return &levers[i];
        }
    }
    return NULL;
}

long long lever_integer(const char *value)
{
    return strtoll(value, NULL, 10);
}

/* The application may have set a locale with another decimal point. */
static double float_until(const char *value, char **end)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        return NAN;
    }
    const double number = strtod_l(value, end, c_locale);
    freelocale(c_locale);
    return number;
}

double lever_float(const char *value)
{
    return float_until(value, NULL);
}

static bool is_integer(const char *value)
{
    const char *digits = value + (value[0] == '-');
    const size_t length = strlen(digits);
    return length >= 1 && length <= 18 && strspn(digits, "0123456789") == length;
}

/* As Python writes a float: 0.5, 1e-05, 12.0. */
static bool is_float(const char *value)
{
    char *end = NULL;
    const size_t length = strspn(value, "0123456789.eE+-");
    return length > 0 && value[0] != '+' && isfinite(float_until(value, &end)) && end == value + length && *end == '\0';
}

/* `choices` begins and ends with a space. */
static bool is_choice(const char *choices, const char *value)
{
    char word[64];
    const int length = snprintf(word, sizeof word, " %s ", value);
    return length > 2 && (size_t)length < sizeof word && strchr(value, ' ') == NULL && strstr(choices, word) != NULL;
}

static bool accepts(const lever *given, const char *value)
{
    switch (given->type) {
    case TYPE_BOOL:
        return strcmp(value, "0") == 0 || strcmp(value, "1") == 0;
    case TYPE_INT:
    case TYPE_BYTES:
        return is_integer(value) && lever_integer(value) >= given->minimum && lever_integer(value) <= given->maximum;
    case TYPE_FLOAT:
        return is_float(value);
    case TYPE_ENUM:
        return is_choice(given->choices, value);
    case TYPE_CPUS: {
        cpus set;
        return cpus_of(value, &set);
    }
    case TYPE_TEXT:
    case TYPE_PATH:
        return true;
    }
    return false;
}

bool cpus_of(const char *text, cpus *set)
{
    memset(set, 0, sizeof *set);
    while (*text != '\0') {
        char first[5], last[5];
        int length = 0;
        const int numbers = sscanf(text, "%4[0-9]%n-%4[0-9]%n", first, &length, last, &length);
        const long from = numbers > 0 ? strtol(first, NULL, 10) : CPU_LIMIT;
        const long to = numbers > 1 ? strtol(last, NULL, 10) : from;
        if (to < from || to >= CPU_LIMIT) {
            return false;
        }
        for (long cpu = from; cpu <= to; cpu++) {
            CPU_SET_S((size_t)cpu, sizeof *set, set->words);
        }
        text += length;
        if (*text == ',' && text[1] != '\0') {
            text++;
        } else if (*text != '\0') {
            return false;
        }
    }
    return true;
}

/* ---- the text of a decision */

static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char name_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/* zlib's crc32, so that no library is needed for it; a decision is short and rare. */
static uint32_t checksum(uint32_t crc, const char *bytes, size_t length)
{
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

bool fault(char why[WHY_LIMIT], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, WHY_LIMIT, format, arguments);
    va_end(arguments);
    return false;
}

static bool not_whole(char why[WHY_LIMIT])
{
    return fault(why, "the decision file holds no whole decision of version 1");
}

/* The head of a decision; `*at` is behind it then. What sscanf finds is compared as it must have been written. */
static bool read_head(char **at, const char *end, decision *found, char why[WHY_LIMIT])
{
    char generation[10] = "", crc[9] = "", line[32], head[80];
    sscanf(*at, "scrtune-decision 1 generation %9[0-9] crc32 %8[0-9a-f]", generation, crc);
    const int line_length = snprintf(line, sizeof line, "generation %s\n", generation);
    const int length = snprintf(head, sizeof head, "scrtune-decision 1\n%scrc32 %s\n", line, crc);
    if (generation[0] == '\0' || strlen(crc) != 8 || strncmp(*at, head, (size_t)length) != 0 ||
        end - *at < length + 4 || memcmp(end - 4, "end\n", 4) != 0) {
        return not_whole(why);
    }
    *at += length;
    if (checksum(checksum(0, line, (size_t)line_length), *at, (size_t)(end - *at)) != strtoul(crc, NULL, 16)) {
        return fault(why, "the checksum of the decision file is wrong");
    }
    found->generation = strtol(generation, NULL, 10);
    return true;
}

static bool take(const char *name, const char *value, decision *found, char why[WHY_LIMIT])
{
    const lever *named = lever_named(name);
    if (named == NULL) {
        return fault(why, "there is no parameter %.64s", name);
    }
    if (!accepts(named, value)) {
        return fault(why, "the value of %s is not one that it can have", name);
    }
    found->entries[found->count].lever = named;
    found->entries[found->count].value = value;
    found->count++;
    return true;
}

/* Take the lines NAME=VALUE from `at` to the last line. A fault of the form comes before one of a value. */
static bool read_lines(char *at, const char *last, decision *found, char why[WHY_LIMIT])
{
    const char *previous = "";
    bool is_good = true;
    while (at < last) {
        const size_t length = strspn(at, name_characters);
        char *newline = strchr(at, '\n');
        if (length == 0 || strchr(upper, *at) == NULL || at[length] != '=' || newline >= last) {
            return not_whole(why);
        }
        at[length] = *newline = '\0';
        if (strcmp(previous, at) >= 0) {
            is_good = fault(why, "the names in the decision file are not sorted, or come twice");
        } else if (is_good) {
            is_good = take(at, at + length + 1, found, why);
        }
        previous = at;
        at = newline + 1;
    }
    return is_good;
}

bool decision_read(char *text, size_t length, decision *found, char why[WHY_LIMIT])
{
    char *at = text;
    found->generation = -1;
    found->count = 0;
    if (length > DECISION_LIMIT || memchr(text, '\0', length) != NULL) {
        return not_whole(why);
    }
    return read_head(&at, text + length, found, why) && read_lines(at, text + length - 4, found, why);
}

static size_t position(const decision *given, const char *name)
{
    size_t i = 0;
    while (i < given->count && strcmp(given->entries[i].lever->name, name) != 0) {
        i++;
    }
    return i;
}

const char *decision_value(const decision *given, const char *name)
{
    const size_t i = position(given, name);
    return i < given->count ? given->entries[i].value : NULL;
}

void decision_put(decision *given, const char *name, const char *value)
{
    const size_t i = position(given, name);
    if (i < LEVER_LIMIT) {
        given->entries[i].lever = lever_named(name);
        given->entries[i].value = value;
        given->count += i == given->count;
    }
}

/* ---- the file */

static struct stat last_look;

void decision_forget(void)
{
    memset(&last_look, 0, sizeof last_look);
}

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_ino == other->st_ino && one->st_dev == other->st_dev && one->st_size == other->st_size &&
           one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec &&
           one->st_ctim.tv_sec == other->st_ctim.tv_sec && one->st_ctim.tv_nsec == other->st_ctim.tv_nsec;
}

/* Takes `file` over. */
static char *read_file(int file, char why[WHY_LIMIT])
{
    struct stat now;
    FILE *stream = fdopen(file, "r");
    char *text = calloc(1, DECISION_LIMIT + 2);
    bool is_read = stream != NULL && text != NULL && fstat(file, &now) == 0;
    if (is_read) {
        last_look = now;
        is_read = S_ISREG(now.st_mode) && now.st_uid == geteuid();
    }
    const size_t length = is_read ? fread(text, 1, DECISION_LIMIT + 1, stream) : 0;
    if (!is_read || ferror(stream) || length > DECISION_LIMIT || strlen(text) != length) {
        fault(why, "the decision file is no regular file of yours, or no text of %d bytes at most", DECISION_LIMIT);
        free(text);
        text = NULL;
    }
    if (stream != NULL) {
        fclose(stream);
    } else {
        close(file);
    }
    return text;
}

/* No link is followed and nothing is waited for, whatever lies at `path`. */
char *decision_look(const char *path, char why[WHY_LIMIT])
{
    struct stat now;
    why[0] = '\0';
    if (lstat(path, &now) != 0 || is_same(&now, &last_look)) {
        return NULL;
    }
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 && errno != ENOENT) {
        fault(why, "the decision file cannot be opened");
    }
    last_look = now;
    return file >= 0 ? read_file(file, why) : NULL;
}
