/* What is done with each line, and the functions that Python calls (client/capture/scanner.py). What one of these
 * returns by pointer holds until the next. */
#include "scan.h"

#include <stdlib.h>
#include <string.h>

/* ---- one line */

/* As generation_of in intents/trace/lines.py, for a line whose phase is a letter and whose hashes are texts. */
static int generation_of(const trace_line *line)
{
    if (line->is_id_quoted) {
        return 0;
    }
    if (!line_has(line, FIELD_ARGS)) {
        return GENERATION_OF_PROCESS;
    }
    if (line->host_hash.length == 0) {
        return line->is_metadata ? 1 : line->host_name.length > 0 ? 0 : GENERATION_OF_PROCESS;
    }
    const bool is_older = line->is_metadata ? line_has(line, FIELD_ID) : line_has(line, ARG_P_IDX);
    return is_older ? 2 : 3;
}

/* Whether the line would change nothing of what is known of its process. */
static inline bool is_known(const process *writer, const trace_line *line, int generation)
{
    const bool has_host = line->host_hash.length > 0 || line->host_name.length > 0;
    return (writer->has_host || !has_host) &&
           (!line->is_phase_a_letter || generation == GENERATION_OF_PROCESS || generation == writer->generation);
}

/* List a text with a newline behind it: plain text has none. */
static void scan_list(scanner *scan, const text *listed)
{
    memcpy(scan->listed + scan->listed_count, scan->all.letters + listed->at, listed->length);
    scan->listed_count += listed->length;
    scan->listed[scan->listed_count++] = '\n';
}

static stop_reason explain(scanner *scan, uint32_t key, uint32_t path)
{
    text *file = &scan->all.texts[key];
    const size_t letters = file->length + scan->all.texts[path].length + 2;
    if (file->path == path) {
        return STOP_END;
    }
    /* The decoder must know of a path that changes before the lines that follow, and after those before. */
    if (file->path != 0 || file->is_waiting || scan->path_count == scan->path_limit ||
        letters > sizeof scan->listed - scan->listed_count) {
        return STOP_ODD;
    }
    file->path = path;
    file->place = NO_PLACE;
    scan_list(scan, file);
    scan_list(scan, &scan->all.texts[path]);
    scan->path_count++;
    return STOP_END;
}

/* Generation 1 has numbers for hashes. */
static inline bool explains_a_file(const trace_line *line)
{
    const slice key = line->arg_value, path = line->arg_name;
    return key.length > 0 && key.length <= HASH_LETTERS && path.letters != NULL && path.length <= PATH_LETTERS;
}

static stop_reason explain_file(scanner *scan, const trace_line *line)
{
    if (!explains_a_file(line)) {
        return STOP_ODD;
    }
    const uint32_t key_text = text_number(&scan->all, line->arg_value);
    const uint32_t path_text = text_number(&scan->all, line->arg_name);
    return key_text == 0 || path_text == 0 ? STOP_FULL : explain(scan, key_text, path_text);
}

/* The bytes that the line's call moved, or -1; false when that cannot be said here. */
static inline bool size_of(const trace_line *line, size_rule rule, int64_t *size)
{
    *size = -1;
    if (rule == SIZE_NONE || !line_has(line, ARG_RESULT) || line->result < 0) {
        return true;
    }
    *size = line->result;
    if (rule == SIZE_RESULT || !line_has(line, ARG_SIZE)) {
        return true;
    }
    return line->size >= 0 && !__builtin_mul_overflow(line->result, line->size, size) &&
           *size <= (int64_t)SCAN_BYTES_LIMIT;
}

static inline stop_reason add_access(scanner *scan, const trace_line *line, const call *made, const process *writer)
{
    const slice key = line->file_hash.length > 0 ? line->file_hash : line->file_name;
    const uint32_t number = text_number_again(&scan->all, key, &scan->all.last_file);
    sum one = {.place = number,
               .process = scan->all.last_process,
               .operation = made->operation,
               .tid = line->tid,
               .count = 1,
               .duration = line->duration,
               .first = line->start,
               .last = line->start + line->duration};
    if (!line_has(line, FIELD_TID) || !size_of(line, made->size, &one.size)) {
        return STOP_ODD;
    }
    one.bytes = one.size > 0 ? (uint64_t)one.size : 0;
    if (writer->bin > 0) {
        one.bin = line->start / writer->bin;
        one.size = one.size > 0 ? INT64_C(1) << (63 - __builtin_clzll(one.bytes)) : one.size;
    }
    if (number == 0) {
        return STOP_FULL;
    }
    if (line->file_hash.length == 0 && key.length > 0 && explain(scan, number, number) != STOP_END) {
        return STOP_ODD;
    }
    if (!sum_add(&scan->all, &one)) {
        return STOP_FULL;
    }
    if (!scan->all.texts[number].is_waiting) {
        scan->all.texts[number].is_waiting = true;
        scan->all.waiting[scan->all.waiting_count++] = number;
    }
    return STOP_END;
}

static inline stop_reason add_event(scanner *scan, const trace_line *line, const call *made, process *writer)
{
    if (!line_has(line, FIELD_START)) {
        return STOP_ODD;
    }
    const stop_reason reason = made->treatment == TREAT_ACCESS ? add_access(scan, line, made, writer) : STOP_END;
    if (reason == STOP_END) {
        const uint64_t end = line->start + line->duration;
        writer->first = line->start < writer->first ? line->start : writer->first;
        writer->last = end > writer->last ? end : writer->last;
    }
    return reason;
}

static inline bool has_what_all_have(const trace_line *line)
{
    const uint32_t needed = 1U << FIELD_NAME | 1U << FIELD_CATEGORY | 1U << FIELD_PID | 1U << FIELD_PHASE;
    return (line->fields & needed) == needed;
}

/* Add a line to the sums: STOP_END when that is done. `made` is the number of its call, 0 when there is none. */
static stop_reason take_in(scanner *scan, const trace_line *line, uint32_t *made)
{
    *made = has_what_all_have(line) ? call_number(&scan->all, line->category, line->name, line->is_metadata) : 0;
    if (*made == 0) {
        return has_what_all_have(line) ? STOP_FULL : STOP_ODD;
    }
    const call *known = &scan->all.calls[*made];
    if (known->treatment == TREAT_UNKNOWN || known->treatment == TREAT_ODD) {
        return known->treatment == TREAT_ODD ? STOP_ODD : STOP_CALL;
    }
    process *writer = process_of(&scan->all, scan->source, line->pid);
    const int generation = line->is_phase_a_letter ? generation_of(line) : NEWEST_GENERATION;
    if (writer == NULL || !is_known(writer, line, generation)) {
        return STOP_PROCESS;
    }
    stop_reason reason = STOP_END;
    if (known->treatment == TREAT_EXPLAIN_FILE) {
        reason = explain_file(scan, line);
    } else if (!line->is_metadata) {
        reason = add_event(scan, line, known, writer);
    }
    if (reason != STOP_END) {
        return reason;
    }
    const int counted = line->is_phase_a_letter ? writer->generation : NEWEST_GENERATION;
    if (counted >= 0) {
        scan->totals.generations[counted]++;
    }
    writer->is_seen = true;
    scan->totals.lines++;
    *(line->is_metadata ? &scan->totals.metadata : &scan->totals.events) += 1;
    return STOP_END;
}

/* ---- all lines */

/* The line behind the one `at`, or `end`. */
static const uint8_t *next_line(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
    return newline != NULL ? newline + 1 : end;
}

/* Whether the decoder must read the line whatever is known. */
static bool is_odd(scanner *scan, const uint8_t *at, const uint8_t *end)
{
    trace_line line;
    if (line_read(&scan->keys, at, end, &line) == NULL || !has_what_all_have(&line)) {
        return true;
    }
    const uint32_t made = call_number(&scan->all, line.category, line.name, line.is_metadata);
    const uint8_t how = scan->all.calls[made].treatment;
    return made != 0 && (how == TREAT_ODD || (how == TREAT_EXPLAIN_FILE && !explains_a_file(&line)));
}

static void ask_for_call(const scanner *scan, uint32_t number, scan_stop *stop)
{
    const call *asked = &scan->all.calls[number];
    const text *category = &scan->all.texts[asked->category], *name = &scan->all.texts[asked->name];
    stop->call = number;
    stop->is_metadata = asked->is_metadata;
    stop->category = scan->all.letters + category->at;
    stop->category_length = category->length;
    stop->name = scan->all.letters + name->at;
    stop->name_length = name->length;
}

/* Scan from `at` to `end`, behind which there is the margin. Returns where the first line begins that is not added to
 * the sums; `odd_end` is where those for the decoder end. */
static const uint8_t *scan_part(scanner *scan, const uint8_t *at, const uint8_t *end, const uint8_t **odd_end,
                                scan_stop *stop)
{
    stop->reason = STOP_END;
    while (at < end) {
        trace_line line;
        uint32_t made = 0;
        const uint8_t *line_end = line_read(&scan->keys, at, end, &line);
        stop->reason = line_end == NULL ? STOP_ODD : (uint8_t)take_in(scan, &line, &made);
        if (stop->reason != STOP_END) {
            if (stop->reason == STOP_CALL) {
                ask_for_call(scan, made, stop);
            } else if (stop->reason == STOP_PROCESS) {
                stop->pid = line.pid;
            }
            break;
        }
        at = line_end < end ? line_end + 1 : end;
    }
    *odd_end = at;
    if (stop->reason == STOP_ODD || stop->reason == STOP_PROCESS) {
        do {
            *odd_end = next_line(*odd_end, end);
        } while (stop->reason == STOP_ODD && *odd_end < end && is_odd(scan, *odd_end, end));
    }
    return at;
}

/* ---- the functions that Python calls */

/* Behind the last line that has the margin, or `at`. */
static const uint8_t *margin_begins(const uint8_t *at, const uint8_t *end)
{
    const size_t length = (size_t)(end - at);
    const uint8_t *newline = length > SCAN_MARGIN ? memrchr(at, '\n', length - SCAN_MARGIN) : NULL;
    return newline != NULL ? newline + 1 : at;
}

/* NULL where there is no memory, or where eight bytes are not in the order that line.c expects. */
SCRTUNE_API scanner *scrtune_scan_open(void)
{
    scanner *scan = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? calloc(1, sizeof *scan) : NULL;
    if (scan != NULL) {
        line_keys_begin(&scan->keys);
        tables_clear(&scan->all);
    }
    return scan;
}

SCRTUNE_API void scrtune_scan_close(scanner *scan)
{
    free(scan);
}

/* Scan the lines of `source` between two offsets of `data`; at most `path_limit` files are explained. */
SCRTUNE_API void scrtune_scan_lines(scanner *scan, uint32_t source, const uint8_t *data, size_t from, size_t to,
                                    size_t path_limit, scan_stop *stop)
{
    const uint8_t *at = data + from, *end = data + to, *odd_end;
    const uint64_t before = scan->totals.lines;
    *stop = (scan_stop){.reason = STOP_END};
    scan->source = source;
    scan->path_count = scan->listed_count = 0;
    scan->path_limit = path_limit;
    const uint8_t *margin = margin_begins(at, end);
    at = scan_part(scan, at, margin, &odd_end, stop);
    if (stop->reason == STOP_END && (size_t)(end - at) > SCAN_TAIL) { /* a line that is so long is odd */
        stop->reason = STOP_ODD;
        odd_end = end;
    } else if (stop->reason == STOP_END && at < end) {
        const size_t length = (size_t)(end - at);
        const uint8_t *tail_end;
        memcpy(scan->tail, at, length);
        memset(scan->tail + length, 0, SCAN_MARGIN);
        const uint8_t *reached = scan_part(scan, scan->tail, scan->tail + length, &tail_end, stop);
        odd_end = at + (tail_end - scan->tail);
        at += reached - scan->tail;
    }
    stop->paths = scan->listed;
    stop->path_letters = scan->listed_count;
    stop->lines = scan->totals.lines - before;
    stop->odd = (size_t)(at - data);
    stop->end = (size_t)(odd_end - data);
}

/* Say what to do with the lines of a call that was asked for. */
SCRTUNE_API void scrtune_scan_treat(scanner *scan, uint32_t number, int how, int operation, int size)
{
    call *asked = &scan->all.calls[number];
    asked->treatment = (uint8_t)how;
    asked->operation = (uint8_t)operation;
    asked->size = (uint8_t)size;
}

/* Say what is known of a process, instead of what was; its sums are parted by bins of time that are `bin` wide, in its
 * own unit, if that is not 0. Returns the number it has in sums, -1 when there is no room. */
SCRTUNE_API int32_t scrtune_scan_process(scanner *scan, uint32_t source, int64_t pid, int generation, int has_host,
                                         uint64_t bin)
{
    return process_add(&scan->all, (process){.source = source,
                                             .pid = pid,
                                             .generation = (int8_t)generation,
                                             .has_host = has_host != 0,
                                             .is_live = true,
                                             .bin = bin,
                                             .first = UINT64_MAX});
}

/* What is known of a process holds no longer. */
SCRTUNE_API void scrtune_scan_forget_process(scanner *scan, uint32_t number)
{
    scan->all.processes[number].is_live = false;
}

/* The places of files hold no longer. */
SCRTUNE_API void scrtune_scan_forget_places(scanner *scan)
{
    for (uint32_t i = 0; i < scan->all.text_count; i++) {
        scan->all.texts[i].place = NO_PLACE;
    }
}

/* The keys of the files with sums whose place is not known, each with a newline behind it. Returns their length. */
SCRTUNE_API size_t scrtune_scan_waiting(scanner *scan, const uint8_t **keys)
{
    scan->asked_count = 0;
    scan->listed_count = 0;
    for (uint32_t i = 0; i < scan->all.waiting_count; i++) {
        text *file = &scan->all.texts[scan->all.waiting[i]];
        if (file->place == NO_PLACE) {
            file->asked = scan->asked_count;
            scan->asked[scan->asked_count++] = scan->all.waiting[i];
            scan_list(scan, file);
        }
    }
    *keys = scan->listed;
    return scan->listed_count;
}

/* Say the `places` of the files that scrtune_scan_waiting has just listed, and sum up by them. Returns the number of
 * `unresolved` sums, which are no longer here; their places are numbers of that list. */
SCRTUNE_API size_t scrtune_scan_settle(scanner *scan, const uint16_t *places, const sum **unresolved)
{
    for (uint32_t i = 0; i < scan->asked_count; i++) {
        scan->all.texts[scan->asked[i]].place = places[i];
    }
    *unresolved = scan->all.unresolved;
    return sums_settle(&scan->all);
}

/* Take out all sums and counts since the last time. */
SCRTUNE_API void scrtune_scan_take(scanner *scan, scan_totals *taken)
{
    size_t count = 0;
    for (uint32_t i = 0; i < scan->all.process_count; i++) {
        process *writer = &scan->all.processes[i];
        if (writer->is_seen) {
            scan->seen[count++] = (seen_process){.first = writer->first, .last = writer->last, .number = i};
            writer->is_seen = false;
            writer->first = UINT64_MAX;
            writer->last = 0;
        }
    }
    *taken = scan->totals;
    taken->processes = scan->seen;
    taken->process_count = count;
    taken->sums = scan->all.sums;
    taken->sum_count = scan->all.sum_count;
    scan->totals = (scan_totals){.lines = 0};
    sums_clear(&scan->all);
}

/* Forget everything but the counts. */
SCRTUNE_API void scrtune_scan_clear(scanner *scan)
{
    tables_clear(&scan->all);
}
