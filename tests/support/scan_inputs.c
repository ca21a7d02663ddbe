/* Gives each file that is named to the scanner, in memory that is exactly as long, and does with it all that
 * client/capture/scanner.py does: under a sanitizer it ends at the first byte that is read beyond its end. */
#include "../../native/scan/scan.c"

#include <stdio.h>

static void teach(scanner *scan, const scan_stop *stop)
{
    const bool is_file = stop->is_metadata && stop->name_length == 2 && memcmp(stop->name, "FH", 2) == 0;
    const bool is_access = !stop->is_metadata && stop->category_length == 5 && memcmp(stop->category, "POSIX", 5) == 0;
    const int how = is_file ? TREAT_EXPLAIN_FILE : is_access ? TREAT_ACCESS : TREAT_COUNT;
    scrtune_scan_treat(scan, stop->call, how, (int)(stop->name_length % 4), SIZE_RESULT);
}

static void take_out(scanner *scan)
{
    static const uint16_t places[SCAN_TEXTS];
    const uint8_t *keys;
    const sum *unresolved;
    scan_totals totals;
    scrtune_scan_waiting(scan, &keys);
    scrtune_scan_settle(scan, places, &unresolved);
    scrtune_scan_take(scan, &totals);
}

static unsigned long scan_all(scanner *scan, const uint8_t *data, size_t length)
{
    unsigned long lines = 0;
    scan_stop stop = {.end = 0};
    while (stop.end < length) {
        const size_t from = stop.end;
        scrtune_scan_lines(scan, 0, data, from, length, 1000, &stop);
        if (stop.odd < from || stop.end < stop.odd || stop.end > length) {
            abort();
        }
        lines += stop.lines;
        if (stop.reason == STOP_CALL) {
            teach(scan, &stop);
        } else if (stop.reason == STOP_PROCESS) {
            scrtune_scan_process(scan, 0, stop.pid, NEWEST_GENERATION, 1, stop.pid % 2 != 0 ? 1000000 : 0);
        } else if (stop.reason == STOP_FULL) {
            take_out(scan);
            scrtune_scan_clear(scan);
        }
    }
    take_out(scan);
    return lines;
}

int main(int count, char **names)
{
    unsigned long lines = 0;
    scanner *scan = scrtune_scan_open();
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(names[i], "rb");
        fseek(file, 0, SEEK_END);
        const size_t length = (size_t)ftell(file);
        rewind(file);
        uint8_t *data = malloc(length + !length);
        lines += fread(data, 1, length, file) == length ? scan_all(scan, data, length) : 0;
        free(data);
        fclose(file);
    }
    scrtune_scan_close(scan);
    printf("%lu\n", lines);
    return 0;
}
