/* The scanner of DFTracer's lines: whole lines to sums in one pass. client/capture/scanner.py is its only caller.
 *
 * It knows no meaning of a name, and takes only lines in the plain form that DFTracer writes nearly always: compact
 * JSON, plain ASCII, integers inside the ranges of intents/trace/lines.py. Whatever else there is goes back as it is,
 * in its place among the others, so that msgspec's decoder stays the only judge of it. What a plain line needs to
 * be understood (the treatment of its name, its process) is asked for once, and the caller says it.
 *
 *   line.c    one line to its fields
 *   tables.c  texts, processes and sums, all of a fixed size
 *   scan.c    what is done with a line, and the functions that Python calls
 *
 * Nothing is read beyond the bytes that are given, and a full table is no error: the caller takes what there is and
 * begins anew.
 */
#ifndef SCAN_H
#define SCAN_H

#include "../scrtune.h"

#pragma GCC visibility push(hidden)

enum {
    SCAN_MARGIN = 64,        /* bytes that may be looked at behind a line */
    SCAN_TAIL = 64 * 1024,   /* the last lines of what is given are scanned in a copy, which has the margin */
    SCAN_KEYS = 64,          /* keys of JSON objects that are recognized in one step */
    SCAN_TEXTS = 1 << 15,    /* names, categories, hashes, paths */
    SCAN_LETTERS = 4 << 20,  /* bytes of them */
    SCAN_CALLS = 1 << 12,
    SCAN_PROCESSES = 1 << 13,
    SCAN_SUMS = 1 << 14,
    SCAN_GENERATIONS = 5,
    GENERATION_OF_PROCESS = -1,
    NEWEST_GENERATION = 4,
    NAME_LETTERS = 256,      /* these four are those of intents/trace/lines.py */
    HASH_LETTERS = 64,
    PATH_LETTERS = 4096,
    NO_PLACE = UINT16_MAX,
};

#define SCAN_TIME_LIMIT (UINT64_C(1) << 62)
#define SCAN_BYTES_LIMIT (UINT64_C(1) << 50)

/* ---- line.c */

typedef struct {
    const uint8_t *letters;
    size_t length;
} slice;

typedef enum {
    FIELD_NONE,
    FIELD_OTHER, /* the only one that may come twice */
    FIELD_ODD,
    FIELD_ID,
    FIELD_NAME,
    FIELD_CATEGORY,
    FIELD_PID,
    FIELD_TID,
    FIELD_START,
    FIELD_DURATION,
    FIELD_PHASE,
    FIELD_ARGS,
    ARG_HOST_HASH,
    ARG_HOST_NAME,
    ARG_FILE_HASH,
    ARG_FILE_NAME,
    ARG_RESULT,
    ARG_SIZE,
    ARG_NAME,
    ARG_VALUE,
    ARG_P_IDX,
} field;

/* The fields of a line. What is not there is undefined, but for texts of arguments, which are empty, and `duration`,
 * which is 0. */
typedef struct {
    uint32_t fields; /* bit 1 << field of each that is there */
    bool is_metadata, is_phase_a_letter, is_id_quoted;
    slice name, category, host_hash, host_name, file_hash, file_name, arg_name, arg_value;
    int64_t pid, tid, result, size;
    uint64_t start, duration;
} trace_line;

/* A key as it stands in a line, with its quotes and colon, and the one that followed it the last time. */
typedef struct {
    uint64_t low, high, low_mask, high_mask;
    uint8_t length, kind, next;
    bool is_arg;
} line_key;

typedef struct {
    line_key keys[SCAN_KEYS];
    unsigned count;
} line_keys;

void line_keys_begin(line_keys *known);

/* Read the line `at` into `found`, and return where it ends (at its newline, or `end`); NULL when it is odd. Behind
 * `end` SCAN_MARGIN bytes must be readable. */
const uint8_t *line_read(line_keys *known, const uint8_t *at, const uint8_t *end, trace_line *found);

static inline bool line_has(const trace_line *line, field kind)
{
    return (line->fields >> kind & 1) != 0;
}

/* ---- tables.c */

/* One text of any kind. 0 stands for none where a text's number is expected. */
typedef struct {
    uint64_t hash;
    uint32_t at, length; /* in the letters */
    uint32_t call;       /* the first call of this name */
    uint32_t path;       /* of this file, as far as the lines explained it */
    uint32_t asked;      /* number of this file in the list of those whose place is asked for */
    uint16_t place;      /* of this file, or NO_PLACE: to be asked for */
    bool is_waiting;     /* this file has sums that are not settled */
} text;

/* What to do with the lines of a name, as the caller says: TREAT_UNKNOWN until then. The numbers are those of
 * intents/trace/calls.py. */
typedef enum { TREAT_UNKNOWN, TREAT_ODD, TREAT_COUNT, TREAT_ACCESS, TREAT_EXPLAIN_FILE } treatment;
typedef enum { SIZE_NONE, SIZE_RESULT, SIZE_ITEMS } size_rule;

typedef struct {
    uint32_t category, name, next; /* the next call of the same name, or 0 */
    uint8_t is_metadata, treatment, operation, size;
} call;

typedef struct {
    uint32_t source;
    int8_t generation; /* -1: not known */
    bool has_host, is_live, is_seen;
    int64_t pid;
    uint64_t bin;         /* width of the bins of time that its sums are parted by; 0: none, and sizes are exact */
    uint64_t first, last; /* of its events, in its own unit; none: first > last */
} process;

/* Accesses that differ in nothing but their time, in the unit of their process. `size` is -1 where there is none;
 * where there are bins of time it is rounded down to a power of two, and `bin` is the number of theirs. What a place
 * stands for, a tier or more, the caller knows. */
typedef struct {
    uint32_t process;
    uint32_t place; /* a file's text, until it is settled */
    int64_t tid, size;
    uint64_t bin, count, bytes, duration, first, last;
    uint8_t operation, is_settled, unused[6];
} sum;

typedef struct {
    text texts[SCAN_TEXTS];
    uint32_t text_index[2 * SCAN_TEXTS], text_count;
    uint32_t last_name, last_category, last_file;
    uint8_t letters[SCAN_LETTERS + SCAN_MARGIN];
    size_t letter_count;
    call calls[SCAN_CALLS];
    uint32_t call_count;
    process processes[SCAN_PROCESSES];
    uint32_t process_index[2 * SCAN_PROCESSES], process_count, last_process;
    sum sums[SCAN_SUMS], unresolved[SCAN_SUMS];
    uint32_t sum_index[2 * SCAN_SUMS], sum_count;
    uint32_t waiting[SCAN_TEXTS], waiting_count; /* files that have sums that are not settled */
} tables;

/* Empty all tables. */
void tables_clear(tables *all);

/* The number of `letters`, or 0 when there is no room. An empty text has a number as well. */
uint32_t text_number(tables *all, slice letters);

/* The same, of a text that is often the `last` one again. */
uint32_t text_number_again(tables *all, slice letters, uint32_t *last);

/* The number of the call, or 0 when there is no room. */
uint32_t call_number(tables *all, slice category, slice name, bool is_metadata);

/* The process, or NULL. */
process *process_of(tables *all, uint32_t source, int64_t pid);

/* Put in a process, instead of one with the same source and pid. Returns its number, -1 when there is no room. */
int32_t process_add(tables *all, process added);

/* Add to a sum `one`, whose count is 1. False when there is no room; nothing has changed then. */
bool sum_add(tables *all, const sum *one);

/* Sum up by place what is waiting in files whose place is known. The others are moved to `unresolved`, with the number
 * by which their place was asked for, and counted. */
uint32_t sums_settle(tables *all);

void sums_clear(tables *all);

/* ---- scan.c, whose caller has the same structures (client/capture/scanner.py) */

typedef enum {
    STOP_END,     /* all is scanned */
    STOP_ODD,     /* the lines of the stop are for the decoder */
    STOP_PROCESS, /* so is its one line, which says of a process what is not known here yet */
    STOP_CALL,    /* a name is new: its treatment is asked for */
    STOP_FULL,    /* take everything out, and clear */
} stop_reason;

typedef struct {
    size_t lines;             /* scanned */
    size_t odd, end;          /* the lines that the decoder must read: offsets; `end` is where to go on */
    const uint8_t *paths;     /* of files that were explained: a key and its path, each with a newline behind it */
    size_t path_letters;
    int64_t pid;              /* of STOP_PROCESS */
    const uint8_t *category, *name; /* of STOP_CALL */
    uint32_t category_length, name_length, call;
    uint8_t is_metadata, reason;
} scan_stop;

typedef struct {
    uint64_t first, last;
    uint32_t number;
} seen_process;

typedef struct {
    uint64_t lines, events, metadata, generations[SCAN_GENERATIONS];
    const sum *sums;
    const seen_process *processes;
    size_t sum_count, process_count;
} scan_totals;

typedef struct scanner {
    tables all;
    line_keys keys;
    scan_totals totals;
    uint32_t source, asked[SCAN_TEXTS], asked_count; /* the files whose places were asked for */
    size_t path_count, path_limit;
    seen_process seen[SCAN_PROCESSES];
    uint8_t listed[SCAN_LETTERS + SCAN_TEXTS]; /* has room for all texts, with a newline behind each */
    size_t listed_count;
    uint8_t tail[SCAN_TAIL + SCAN_MARGIN];
} scanner;

#pragma GCC visibility pop

#endif
