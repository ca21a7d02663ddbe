/* The decision file. scr_config/decision.py has its form, and reads and refuses the same texts. */
#include "scrtune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char first_line[] = "scrtune-decision 1\n";
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

/* What stands between `prefix` and the end of the line at `*at`, of `allowed` characters; NULL if nothing does. */
static const char *field(const char **at, const char *prefix, const char *allowed, size_t *length)
{
    const size_t skip = strlen(prefix);
    if (strncmp(*at, prefix, skip) != 0) {
        return NULL;
    }
    const char *start = *at + skip;
    *length = strspn(start, allowed);
    if (start[*length] != '\n') {
        return NULL;
    }
    *at = start + *length + 1;
    return start;
}

/* The head of a decision; `*at` is behind it then. */
static decision_fault read_head(const char **at, size_t length, decision *found)
{
    size_t digits = 0, hex = 0;
    const char *end = *at + length;
    if (strncmp(*at, first_line, sizeof first_line - 1) != 0) {
        return DECISION_NOT_WHOLE;
    }
    *at += sizeof first_line - 1;
    const char *line = *at;
    const char *generation = field(at, "generation ", "0123456789", &digits);
    if (generation == NULL || digits < 1 || digits > 9) {
        return DECISION_NOT_WHOLE;
    }
    const size_t line_length = (size_t)(*at - line);
    const char *crc = field(at, "crc32 ", "0123456789abcdef", &hex);
    if (crc == NULL || hex != 8 || end - *at < 4 || memcmp(end - 4, "end\n", 4) != 0) {
        return DECISION_NOT_WHOLE;
    }
    const uint32_t actual = checksum(checksum(0, line, line_length), *at, (size_t)(end - *at));
    if (actual != (uint32_t)strtoul(crc, NULL, 16)) {
        return DECISION_WRONG_CHECKSUM;
    }
    found->generation = strtol(generation, NULL, 10);
    return DECISION_GOOD;
}

/* Split the lines NAME=VALUE from `at` to the last line into C strings; the first fault of the form. */
static decision_fault split_lines(char *at, const char *last, size_t *count)
{
    const char *previous = "";
    decision_fault order = DECISION_GOOD;
    for (*count = 0; at < last; (*count)++) {
        const size_t length = strspn(at, name_characters);
        char *newline = strchr(at, '\n');
        if (length == 0 || strchr(upper, *at) == NULL || at[length] != '=' || newline >= last) {
            return DECISION_NOT_WHOLE;
        }
        at[length] = *newline = '\0';
        if (strcmp(previous, at) >= 0) {
            order = DECISION_NOT_SORTED;
        }
        previous = at;
        at = newline + 1;
    }
    return order;
}

static decision_fault check_line(const char *name, decision *found, char why[WHY_LIMIT])
{
    const char *value = name + strlen(name) + 1;
    const lever *named = lever_named(name);
    if (named == NULL) {
        snprintf(why, WHY_LIMIT, "there is no parameter %.64s", name);
        return DECISION_UNKNOWN_NAME;
    }
    if (!lever_accepts(named, value)) {
        snprintf(why, WHY_LIMIT, "the value of %s is not one that it can have", name);
        return DECISION_BAD_VALUE;
    }
    found->entries[found->count].lever = named;
    found->entries[found->count].value = value;
    found->count++;
    return DECISION_GOOD;
}

static decision_fault fault_of_form(decision_fault fault, char why[WHY_LIMIT])
{
    static const char *const words[] = {
        [DECISION_NOT_WHOLE] = "the decision file holds no whole decision of version 1",
        [DECISION_WRONG_CHECKSUM] = "the checksum of the decision file is wrong",
        [DECISION_NOT_SORTED] = "the names in the decision file are not sorted, or come twice",
    };
    snprintf(why, WHY_LIMIT, "%s", words[fault]);
    return fault;
}

decision_fault decision_read(char *text, size_t length, decision *found, char why[WHY_LIMIT])
{
    found->generation = -1;
    found->count = 0;
    if (length > DECISION_LIMIT || memchr(text, '\0', length) != NULL) {
        return fault_of_form(DECISION_NOT_WHOLE, why);
    }
    const char *at = text;
    decision_fault fault = read_head(&at, length, found);
    size_t lines = 0;
    char *line = text + (at - text);
    if (fault == DECISION_GOOD) {
        fault = split_lines(line, text + length - 4, &lines);
    }
    if (fault != DECISION_GOOD) {
        return fault_of_form(fault, why);
    }
    for (size_t i = 0; i < lines && fault == DECISION_GOOD; i++) {
        fault = check_line(line, found, why);
        line += strlen(line) + 1;
        line += strlen(line) + 1;
    }
    return fault;
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
        snprintf(why, WHY_LIMIT, "the decision file is no regular file of yours, or no text of %d bytes at most",
                 DECISION_LIMIT);
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
        snprintf(why, WHY_LIMIT, "the decision file cannot be opened");
    }
    last_look = now;
    return file >= 0 ? read_file(file, why) : NULL;
}
