/* What the scanner remembers, in tables of a fixed size. Number 0 of texts and calls stands for none. */
#include "scan.h"

#include <string.h>

static inline uint64_t mixed(uint64_t one, uint64_t other)
{
    uint64_t product = (one ^ other * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xD6E8FEB86659FD93);
    product = (product ^ product >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return product ^ product >> 32;
}

void tables_clear(tables *all)
{
    memset(all->text_index, 0, sizeof all->text_index);
    memset(all->process_index, 0, sizeof all->process_index);
    memset(all->sum_index, 0, sizeof all->sum_index);
    all->text_count = all->call_count = 1;
    all->process_count = all->sum_count = all->waiting_count = 0;
    all->texts[0].length = UINT32_MAX; /* like no text */
    all->last_process = all->last_name = all->last_category = all->last_file = 0;
    all->letter_count = 0;
}

/* ---- texts and calls */

/* The next eight letters, with zeros behind the last: SCAN_MARGIN bytes follow whatever is looked up. */
static inline uint64_t next_word(const uint8_t *letters, size_t left)
{
    uint64_t word;
    memcpy(&word, letters, sizeof word);
    return left >= 8 ? word : word & ((UINT64_C(1) << 8 * left) - 1);
}

static inline uint64_t hash_of(slice letters)
{
    uint64_t hash = letters.length;
    for (size_t i = 0; i < letters.length; i += 8) {
        hash = mixed(hash, next_word(letters.letters + i, letters.length - i));
    }
    return hash;
}

static inline bool is_text(const tables *all, const text *known, slice letters)
{
    uint64_t differences = known->length ^ letters.length;
    for (size_t i = 0; i < letters.length && differences == 0; i += 8) {
        const size_t left = letters.length - i;
        differences = next_word(all->letters + known->at + i, left) ^ next_word(letters.letters + i, left);
    }
    return differences == 0;
}

static uint32_t text_put(tables *all, slice letters, uint64_t hash)
{
    if (all->text_count == SCAN_TEXTS || letters.length > SCAN_LETTERS - all->letter_count) {
        return 0;
    }
    all->texts[all->text_count] = (text){
        .hash = hash, .at = (uint32_t)all->letter_count, .length = (uint32_t)letters.length, .place = NO_PLACE};
    if (letters.length > 0) {
        memcpy(all->letters + all->letter_count, letters.letters, letters.length);
    }
    all->letter_count += letters.length;
    return all->text_count++;
}

uint32_t text_number(tables *all, slice letters)
{
    const uint32_t mask = 2 * SCAN_TEXTS - 1;
    const uint64_t hash = hash_of(letters);
    uint32_t at = (uint32_t)hash & mask;
    for (; all->text_index[at] != 0; at = (at + 1) & mask) {
        const text *known = &all->texts[all->text_index[at]];
        if (known->hash == hash && is_text(all, known, letters)) {
            return all->text_index[at];
        }
    }
    return all->text_index[at] = text_put(all, letters, hash);
}

uint32_t text_number_again(tables *all, slice letters, uint32_t *last)
{
    if (!is_text(all, &all->texts[*last], letters)) {
        *last = text_number(all, letters);
    }
    return *last;
}

uint32_t call_number(tables *all, slice category, slice name, bool is_metadata)
{
    const uint32_t category_text = text_number_again(all, category, &all->last_category);
    const uint32_t name_text = text_number_again(all, name, &all->last_name);
    if (category_text == 0 || name_text == 0) {
        return 0;
    }
    uint32_t number = all->texts[name_text].call;
    for (; number != 0; number = all->calls[number].next) {
        if (all->calls[number].category == category_text && all->calls[number].is_metadata == is_metadata) {
            return number;
        }
    }
    if (all->call_count == SCAN_CALLS) {
        return 0;
    }
    number = all->call_count++;
    all->calls[number] = (call){.category = category_text,
                                .name = name_text,
                                .next = all->texts[name_text].call,
                                .is_metadata = is_metadata,
                                .treatment = TREAT_UNKNOWN};
    return all->texts[name_text].call = number;
}

/* ---- processes */

/* Where the process stands in the index, or the free place where it would. */
static uint32_t process_place(const tables *all, uint32_t source, int64_t pid)
{
    const uint32_t mask = 2 * SCAN_PROCESSES - 1;
    uint32_t at = (uint32_t)mixed(source, (uint64_t)pid) & mask;
    for (; all->process_index[at] != 0; at = (at + 1) & mask) {
        const process *known = &all->processes[all->process_index[at] - 1];
        if (known->pid == pid && known->source == source) {
            break;
        }
    }
    return at;
}

process *process_of(tables *all, uint32_t source, int64_t pid)
{
    process *last = &all->processes[all->last_process];
    if (all->process_count == 0) {
        return NULL;
    }
    if (last->pid != pid || last->source != source) {
        const uint32_t number = all->process_index[process_place(all, source, pid)];
        if (number == 0) {
            return NULL;
        }
        all->last_process = number - 1;
        last = &all->processes[number - 1];
    }
    return last->is_live ? last : NULL;
}

int32_t process_add(tables *all, process added)
{
    if (all->process_count == SCAN_PROCESSES) {
        return -1;
    }
    const uint32_t number = all->process_count++;
    all->processes[number] = added;
    all->process_index[process_place(all, added.source, added.pid)] = number + 1;
    all->last_process = number;
    return (int32_t)number;
}

/* ---- sums */

static inline bool is_alike(const sum *one, const sum *other)
{
    return one->place == other->place && one->size == other->size && one->process == other->process &&
           one->tid == other->tid && one->bin == other->bin && one->operation == other->operation &&
           one->is_settled == other->is_settled;
}

/* Where `one` stands in the index, or the free place where it would. */
static inline uint32_t sum_place(const tables *all, const sum *one)
{
    const uint32_t mask = 2 * SCAN_SUMS - 1;
    const uint64_t kind = (uint64_t)one->process << 32 | one->place;
    const uint64_t rest = (uint64_t)one->size << 4 | (uint64_t)(one->operation << 1) | one->is_settled;
    uint32_t at = (uint32_t)mixed(mixed(kind, rest), (uint64_t)one->tid ^ one->bin << 32) & mask;
    while (all->sum_index[at] != 0 && !is_alike(&all->sums[all->sum_index[at] - 1], one)) {
        at = (at + 1) & mask;
    }
    return at;
}

bool sum_add(tables *all, const sum *one)
{
    const uint32_t at = sum_place(all, one);
    if (all->sum_index[at] == 0) {
        if (all->sum_count == SCAN_SUMS) {
            return false;
        }
        all->sums[all->sum_count++] = *one;
        all->sum_index[at] = all->sum_count;
        return true;
    }
    sum *known = &all->sums[all->sum_index[at] - 1];
    uint64_t duration, bytes;
    if (__builtin_add_overflow(known->duration, one->duration, &duration) ||
        __builtin_add_overflow(known->bytes, one->bytes, &bytes)) {
        return false;
    }
    known->duration = duration;
    known->bytes = bytes;
    known->count += one->count;
    known->first = one->first < known->first ? one->first : known->first;
    known->last = one->last > known->last ? one->last : known->last;
    return true;
}

void sums_clear(tables *all)
{
    memset(all->sum_index, 0, sizeof all->sum_index);
    all->sum_count = 0;
}

/* In place: what is put back never overtakes what is read. */
uint32_t sums_settle(tables *all)
{
    const uint32_t count = all->sum_count;
    uint32_t unresolved = 0;
    sums_clear(all);
    for (uint32_t i = 0; i < count; i++) {
        sum one = all->sums[i];
        if (!one.is_settled && all->texts[one.place].place == NO_PLACE) {
            one.place = all->texts[one.place].asked;
            all->unresolved[unresolved++] = one;
            continue;
        }
        if (!one.is_settled) {
            one.place = all->texts[one.place].place;
            one.is_settled = true;
        }
        if (!sum_add(all, &one)) { /* an overflow: it stays by itself */
            all->sums[all->sum_count++] = one;
        }
    }
    for (uint32_t i = 0; i < all->waiting_count; i++) {
        all->texts[all->waiting[i]].is_waiting = false;
    }
    all->waiting_count = 0;
    return unresolved;
}
