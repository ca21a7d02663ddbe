/* One line of DFTracer to its fields, eight bytes at a time. */
#include "scan.h"

#include <string.h>

#define EACH(byte) (UINT64_C(0x0101010101010101) * (uint8_t)(byte))
#define HIGH_BITS EACH(0x80)

enum { KEY_START, KEY_AFTER_ARGS, KEY_UNCOMMON, KEY_FIRST_REAL };

static const struct {
    const char *name;
    field kind;
    bool is_arg;
} meanings[] = {
    {"id", FIELD_ID, false},
    {"name", FIELD_NAME, false},
    {"cat", FIELD_CATEGORY, false},
    {"pid", FIELD_PID, false},
    {"tid", FIELD_TID, false},
    {"ts", FIELD_START, false},
    {"dur", FIELD_DURATION, false},
    {"ph", FIELD_PHASE, false},
    {"args", FIELD_ARGS, false},
    {"hhash", ARG_HOST_HASH, true},
    {"hostname", ARG_HOST_NAME, true},
    {"fhash", ARG_FILE_HASH, true},
    {"fname", ARG_FILE_NAME, true},
    {"ret", ARG_RESULT, true},
    {"size", ARG_SIZE, true},
    {"name", ARG_NAME, true},
    {"value", ARG_VALUE, true},
    {"p_idx", ARG_P_IDX, true},
    /* of aggregated lines, and with types that would have to be checked */
    {"dft_cnt", FIELD_ODD, true},
    {"dur_sum", FIELD_ODD, true},
    {"dur_max", FIELD_ODD, true},
    {"ret_sum", FIELD_ODD, true},
    {"ret_min", FIELD_ODD, true},
    {"ret_max", FIELD_ODD, true},
    {"size_min", FIELD_ODD, true},
    {"size_max", FIELD_ODD, true},
};

static inline uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* ---- values: each function returns where it ends, or NULL when it is odd */

/* The high bit of the first byte that ends plain text: a quote, a backslash, a control, anything beyond ASCII. Bits
 * above it mean nothing. */
static inline uint64_t end_of_plain(uint64_t word)
{
    const uint64_t quote = (word ^ EACH('"')) - EACH(1), escape = (word ^ EACH('\\')) - EACH(1);
    return (word | (word - EACH(' ')) | quote | escape) & HIGH_BITS;
}

/* `at` is the quote before it. */
static inline const uint8_t *read_text(const uint8_t *at, size_t limit, slice *found)
{
    if (*at != '"') {
        return NULL;
    }
    const uint8_t *end = ++at;
    uint64_t ends;
    while ((ends = end_of_plain(word_at(end))) == 0) {
        end += 8;
    }
    end += __builtin_ctzll(ends) >> 3;
    *found = (slice){at, (size_t)(end - at)};
    return *end == '"' && found->length <= limit ? end + 1 : NULL;
}

/* The number of digits at the beginning of eight bytes. */
static inline unsigned digits_in(uint64_t word)
{
    const uint64_t digits = word ^ EACH('0');
    const uint64_t others = ((digits + EACH(0x80 - 10)) | digits) & HIGH_BITS;
    return others != 0 ? (unsigned)__builtin_ctzll(others) >> 3 : 8;
}

/* The value of the first `count` digits, 1 to 8: neighbours are joined, then pairs, then fours. */
static inline uint64_t value_of(uint64_t word, unsigned count)
{
    uint64_t digits = (word ^ EACH('0')) << (64 - 8 * count);
    digits = (digits * 10 + (digits >> 8)) & UINT64_C(0x00FF00FF00FF00FF);
    digits = (digits * 100 + (digits >> 16)) & UINT64_C(0x0000FFFF0000FFFF);
    return (digits * 10000 + (digits >> 32)) & UINT64_C(0xFFFFFFFF);
}

/* At most 19 digits, which fit. JSON has no leading zeros. */
static inline const uint8_t *read_digits(const uint8_t *at, uint64_t *found)
{
    static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    unsigned count = digits_in(word_at(at)), total = count;
    if (count == 0 || (*at == '0' && count > 1)) {
        return NULL;
    }
    uint64_t value = value_of(word_at(at), count);
    while (count == 8) {
        at += 8;
        count = digits_in(word_at(at));
        total += count;
        if (total > 19) {
            return NULL;
        }
        if (count > 0) {
            value = value * powers[count] + value_of(word_at(at), count);
        }
    }
    *found = value;
    return at + count;
}

/* An integer of at most `limit`, or at least -`limit`; generation 0 puts it in quotes. Nearly all have neither sign
 * nor quotes: to say so first, and in place, makes the scanner an eighth faster. */
static inline __attribute__((always_inline)) const uint8_t *read_integer(const uint8_t *at, uint64_t limit,
                                                                         int64_t *found)
{
    if (*at >= '0' && *at <= '9') {
        uint64_t plain = 0;
        at = read_digits(at, &plain);
        *found = (int64_t)plain;
        return plain <= limit ? at : NULL;
    }
    const bool is_quoted = *at == '"';
    at += is_quoted;
    const bool is_negative = *at == '-';
    uint64_t value = 0;
    at = read_digits(at + is_negative, &value);
    if (at == NULL || value > limit || (is_negative && value == 0) || (is_quoted && *at != '"')) {
        return NULL;
    }
    *found = is_negative ? -(int64_t)value : (int64_t)value;
    return at + is_quoted;
}

static inline const uint8_t *read_natural(const uint8_t *at, uint64_t limit, uint64_t *found)
{
    int64_t value = 0;
    at = read_integer(at, limit, &value);
    *found = (uint64_t)value;
    return value >= 0 ? at : NULL;
}

/* A text or a number that matters at most by being there. */
static inline __attribute__((always_inline)) const uint8_t *read_any(const uint8_t *at, slice *found)
{
    const unsigned count = digits_in(word_at(at));
    uint64_t value;
    if (count > 0 && count < 8 && at[count] == ',' && (*at != '0' || count == 1)) { /* nearly always */
        return at + count;
    }
    if (*at == '"') {
        return read_text(at, SIZE_MAX, found);
    }
    at = read_digits(at + (*at == '-'), &value);
    if (at == NULL || *at != '.') {
        return at;
    }
    const uint8_t *fraction = ++at;
    while (digits_in(word_at(at)) == 8) {
        at += 8;
    }
    at += digits_in(word_at(at));
    return at > fraction ? at : NULL;
}

/* Complete events and metadata only: X and M, 1 and 4 since generation 4. */
static inline const uint8_t *read_phase(const uint8_t *at, trace_line *found)
{
    found->is_phase_a_letter = *at == '"';
    at += found->is_phase_a_letter;
    const char complete = found->is_phase_a_letter ? 'X' : '1', metadata = found->is_phase_a_letter ? 'M' : '4';
    found->is_metadata = *at == metadata;
    if ((*at != complete && *at != metadata) || (found->is_phase_a_letter && at[1] != '"')) {
        return NULL;
    }
    return at + 1 + found->is_phase_a_letter;
}

static inline const uint8_t *read_value(field kind, const uint8_t *at, trace_line *found)
{
    slice ignored;
    switch (kind) {
    case FIELD_NAME:
        return read_text(at, NAME_LETTERS, &found->name);
    case FIELD_CATEGORY:
        return read_text(at, NAME_LETTERS, &found->category);
    case FIELD_PID:
        return read_integer(at, SCAN_TIME_LIMIT, &found->pid);
    case FIELD_TID:
        return read_integer(at, SCAN_TIME_LIMIT, &found->tid);
    case FIELD_START:
        return read_natural(at, SCAN_TIME_LIMIT, &found->start);
    case FIELD_DURATION:
        return read_natural(at, SCAN_TIME_LIMIT, &found->duration);
    case FIELD_PHASE:
        return read_phase(at, found);
    case ARG_HOST_HASH:
        return read_text(at, HASH_LETTERS, &found->host_hash);
    case ARG_HOST_NAME:
        return read_text(at, NAME_LETTERS, &found->host_name);
    case ARG_FILE_HASH:
        return read_text(at, HASH_LETTERS, &found->file_hash);
    case ARG_FILE_NAME:
        return read_text(at, PATH_LETTERS, &found->file_name);
    case ARG_RESULT:
        return read_integer(at, SCAN_BYTES_LIMIT, &found->result);
    case ARG_SIZE:
        return read_integer(at, SCAN_BYTES_LIMIT, &found->size);
    case ARG_NAME:
        return read_any(at, &found->arg_name);
    case ARG_VALUE:
        return read_any(at, &found->arg_value);
    case FIELD_ID:
        found->is_id_quoted = *at == '"';
        return read_any(at, &ignored);
    case FIELD_OTHER:
    case ARG_P_IDX:
        return read_any(at, &ignored);
    case FIELD_NONE:
    case FIELD_ODD:
    case FIELD_ARGS:
        break;
    }
    return NULL;
}

/* ---- keys */

void line_keys_begin(line_keys *known)
{
    memset(known, 0, sizeof *known);
    known->count = KEY_FIRST_REAL;
    for (unsigned i = 0; i < KEY_FIRST_REAL; i++) {
        known->keys[i].low = 1; /* bytes that begin no key */
        known->keys[i].low_mask = UINT64_MAX;
        known->keys[i].kind = FIELD_OTHER;
    }
}

static inline bool key_matches(const line_key *key, uint64_t low, uint64_t high)
{
    return (((low ^ key->low) & key->low_mask) | ((high ^ key->high) & key->high_mask)) == 0;
}

static field meaning_of(slice name, bool is_arg)
{
    for (size_t i = 0; i < COUNT(meanings); i++) {
        if (meanings[i].is_arg == is_arg && strlen(meanings[i].name) == name.length &&
            memcmp(meanings[i].name, name.letters, name.length) == 0) {
            return meanings[i].kind;
        }
    }
    return FIELD_OTHER;
}

/* The mask of the first `count` bytes of a word. */
static inline uint64_t mask_of(size_t count)
{
    return count == 0 ? 0 : count >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * count) - 1;
}

/* The number of the key that begins with these two words, 0 when it is new. */
static inline unsigned key_number(const line_keys *known, uint64_t low, uint64_t high, bool is_arg)
{
    for (unsigned i = KEY_FIRST_REAL; i < known->count; i++) {
        if (known->keys[i].is_arg == is_arg && key_matches(&known->keys[i], low, high)) {
            return i;
        }
    }
    return 0;
}

/* Put in the key of `length` bytes that begins with these two words. One that is too long, or one too many, is
 * KEY_UNCOMMON. */
static unsigned key_add(line_keys *known, uint64_t low, uint64_t high, size_t length, field kind, bool is_arg)
{
    if (length > 16 || known->count == SCAN_KEYS) {
        return KEY_UNCOMMON;
    }
    const uint64_t low_mask = mask_of(length), high_mask = mask_of(length > 8 ? length - 8 : 0);
    known->keys[known->count] = (line_key){
        .low = low & low_mask,
        .high = high & high_mask,
        .low_mask = low_mask,
        .high_mask = high_mask,
        .length = (uint8_t)length,
        .kind = (uint8_t)kind,
        .is_arg = is_arg,
    };
    return known->count++;
}

/* Read a key that is not among the known ones. */
static const uint8_t *learn_key(line_keys *known, const uint8_t *at, bool is_arg, unsigned *number, field *kind)
{
    slice name;
    const uint8_t *end = read_text(at, SIZE_MAX, &name);
    if (end == NULL || *end != ':') {
        return NULL;
    }
    *kind = meaning_of(name, is_arg);
    *number = key_add(known, word_at(at), word_at(at + 8), (size_t)(end + 1 - at), *kind, is_arg);
    return end + 1;
}

/* Read a key and its colon. The one that followed `previous` the last time comes again, nearly always. */
static inline const uint8_t *read_key(line_keys *known, const uint8_t *at, bool is_arg, unsigned *previous, field *kind)
{
    const uint64_t low = word_at(at), high = word_at(at + 8);
    unsigned number = known->keys[*previous].next;
    if (!key_matches(&known->keys[number], low, high)) {
        number = key_number(known, low, high, is_arg);
        if (number == 0) {
            at = learn_key(known, at, is_arg, &number, kind);
            *previous = number;
            return at;
        }
        if (*previous != KEY_UNCOMMON) { /* which stands for keys of both levels */
            known->keys[*previous].next = (uint8_t)number;
        }
    }
    *previous = number;
    *kind = known->keys[number].kind;
    return at + known->keys[number].length;
}

/* ---- the line */

/* What may stand behind the object: the comma and the carriage return that are no part of it. */
static inline const uint8_t *line_end(const uint8_t *at, const uint8_t *end)
{
    at += *at == ',';
    at += *at == '\r';
    return at == end || (at < end && *at == '\n') ? at : NULL;
}

/* Numbers are read only where line_has says so: to clear the whole of it would take a tenth of the time. */
static inline void line_begin(trace_line *found)
{
    found->fields = 0;
    found->is_metadata = found->is_phase_a_letter = found->is_id_quoted = false;
    found->host_hash.length = found->host_name.length = found->file_hash.length = found->file_name.length = 0;
    found->arg_name.letters = found->arg_value.letters = NULL;
    found->arg_name.length = found->arg_value.length = 0;
    found->duration = 0;
}

const uint8_t *line_read(line_keys *known, const uint8_t *at, const uint8_t *end, trace_line *found)
{
    unsigned previous = KEY_START;
    bool is_arg = false;
    line_begin(found);
    if (*at != '{') {
        return NULL;
    }
    for (;;) {
        field kind = FIELD_NONE;
        at = read_key(known, at + 1, is_arg, &previous, &kind);
        if (at == NULL || (line_has(found, kind) && kind != FIELD_OTHER)) {
            return NULL;
        }
        found->fields |= UINT32_C(1) << kind;
        if (kind != FIELD_ARGS) {
            at = read_value(kind, at, found);
        } else if (*at != '{') {
            return NULL;
        } else if (at[1] != '}') {
            is_arg = true;
            continue;
        } else {
            is_arg = true;
            at++;
        }
        if (at != NULL && is_arg && *at == '}') {
            at++;
            is_arg = false;
            previous = KEY_AFTER_ARGS;
        }
        if (at == NULL || *at != ',') {
            return at != NULL && *at == '}' && !is_arg ? line_end(at + 1, end) : NULL;
        }
    }
}
