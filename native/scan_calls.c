/* The functions that Python calls, in client/capture/scanner.py. What one returns by pointer holds until the next. */
#include "scan.h"

#include <stdlib.h>
#include <string.h>

/* Behind the last line that has the margin, or `at`. */
static const uint8_t *margin_begins(const uint8_t *at, const uint8_t *end)
{
    const size_t length = (size_t)(end - at);
    const uint8_t *newline = length > SCAN_MARGIN ? memrchr(at, '\n', length - SCAN_MARGIN) : NULL;
    return newline != NULL ? newline + 1 : at;
}

/* NULL where there is no memory, or where eight bytes are not in the order that scan_line.c expects. */
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
