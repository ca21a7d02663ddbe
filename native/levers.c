/* Every parameter that a decision may hold. tests/native/test_native.py holds this equal to scr_config/parameters.json. */
#include "scrtune.h"

#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXED(name, type, class) {name, type, 0, 0, NULL, class, BY_NOTHING, NULL}
#define FIXED_NUMBER(name, type, low, high, class) {name, type, low, high, NULL, class, BY_NOTHING, NULL}
#define LEVER(name, type, class, means, symbol) {name, type, 0, 0, NULL, class, means, symbol}
#define LEVER_NUMBER(name, type, low, high, class, means, symbol) {name, type, low, high, NULL, class, means, symbol}
#define LEVER_ENUM(name, choices, class, means, symbol) {name, TYPE_ENUM, 0, 0, choices, class, means, symbol}

const lever levers[] = {
    FIXED("AXL_COPY_METADATA", TYPE_BOOL, CLASS_INERT),
    FIXED_NUMBER("AXL_DEBUG", TYPE_INT, INT_MIN, INT_MAX, CLASS_INERT),
    FIXED("AXL_MKDIR", TYPE_BOOL, CLASS_INERT),
    FIXED("AXL_USE_EXTENSION", TYPE_BOOL, CLASS_LAUNCH),
    FIXED_NUMBER("KVTREE_ENTRIES_PER_FILE", TYPE_INT, 1, INT_MAX, CLASS_LAUNCH),
    LEVER_ENUM("REDSET_ENCODE", " CPU OPENMP PTHREADS CUDA ", CLASS_LAUNCH, BY_NOTHING, NULL),
    LEVER("SCRTUNE_FLUSH_CPUS", TYPE_CPUS, CLASS_LIVE, BY_CPUS, "AXL_Dispatch"),
    LEVER_NUMBER("SCRTUNE_FLUSH_THREADS", TYPE_INT, 0, 16, CLASS_LIVE, BY_THREADS, "axl_get_nprocs"),
    FIXED("SCR_AXL_MKDIR", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_CACHE_BASE", TYPE_PATH, CLASS_LAUNCH),
    LEVER("SCR_CACHE_BYPASS", TYPE_BOOL, CLASS_REINIT, BY_REINIT, "scr_cache_bypass"),
    FIXED("SCR_CACHE_PURGE", TYPE_BOOL, CLASS_LAUNCH),
    LEVER_NUMBER("SCR_CACHE_SIZE", TYPE_INT, 1, INT_MAX, CLASS_REINIT, BY_REINIT, "scr_cache_size"),
    LEVER_NUMBER("SCR_CHECKPOINT_INTERVAL", TYPE_INT, INT_MIN, INT_MAX,
                 CLASS_LIVE_ON_RANK_0, BY_INT, "scr_checkpoint_interval"),
    LEVER("SCR_CHECKPOINT_OVERHEAD", TYPE_FLOAT, CLASS_LIVE_ON_RANK_0, BY_DOUBLE, "scr_checkpoint_overhead"),
    LEVER_NUMBER("SCR_CHECKPOINT_SECONDS", TYPE_INT, INT_MIN, INT_MAX,
                 CLASS_LIVE_ON_RANK_0, BY_INT, "scr_checkpoint_seconds"),
    FIXED("SCR_CLUSTER_NAME", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_CNTL_BASE", TYPE_PATH, CLASS_LAUNCH),
    FIXED("SCR_CONF_FILE", TYPE_PATH, CLASS_LAUNCH),
    FIXED("SCR_COPY_METADATA", TYPE_BOOL, CLASS_LAUNCH),
    LEVER_ENUM("SCR_COPY_TYPE", " SINGLE PARTNER XOR RS FILE ", CLASS_REINIT, BY_REINIT, "scr_copy_type"),
    FIXED("SCR_CRC_ON_COPY", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_CRC_ON_DELETE", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_CRC_ON_FLUSH", TYPE_BOOL, CLASS_INERT),
    FIXED("SCR_CURRENT", TYPE_TEXT, CLASS_LAUNCH),
    FIXED_NUMBER("SCR_DEBUG", TYPE_INT, INT_MIN, INT_MAX, CLASS_LAUNCH),
    FIXED("SCR_DISTRIBUTE", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_DROP_AFTER_CURRENT", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_ENABLE", TYPE_BOOL, CLASS_LAUNCH),
    FIXED_NUMBER("SCR_END_TIME", TYPE_INT, 0, 9007199254740992, CLASS_LAUNCH),
    FIXED("SCR_EXCLUDE_NODES", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_FETCH", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_FETCH_BYPASS", TYPE_BOOL, CLASS_LAUNCH),
    FIXED_NUMBER("SCR_FETCH_WIDTH", TYPE_INT, 1, INT_MAX, CLASS_INERT),
    LEVER_NUMBER("SCR_FILE_BUF_SIZE", TYPE_BYTES, 1, 9007199254740992, CLASS_LIVE, BY_AXL, "AXL_Config"),
    LEVER_NUMBER("SCR_FLUSH", TYPE_INT, INT_MIN, INT_MAX, CLASS_LIVE, BY_INT, "scr_flush"),
    LEVER("SCR_FLUSH_ASYNC", TYPE_BOOL, CLASS_LIVE, BY_ASYNC, "scr_flush_async"),
    FIXED_NUMBER("SCR_FLUSH_ASYNC_BW", TYPE_BYTES, 0, 9007199254740992, CLASS_INERT),
    FIXED("SCR_FLUSH_ASYNC_PERCENT", TYPE_FLOAT, CLASS_INERT),
    LEVER_NUMBER("SCR_FLUSH_ASYNC_USLEEP", TYPE_INT, 0, INT_MAX, CLASS_LIVE, BY_INT, "scr_flush_async_usleep"),
    FIXED("SCR_FLUSH_ON_RESTART", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_FLUSH_POSTSTAGE", TYPE_BOOL, CLASS_LAUNCH),
    LEVER_ENUM("SCR_FLUSH_TYPE", " SYNC PTHREAD BBAPI DATAWARP DEFAULT NATIVE ",
                 CLASS_REINIT, BY_REINIT, "scr_flush_type"),
    FIXED_NUMBER("SCR_FLUSH_WIDTH", TYPE_INT, 1, INT_MAX, CLASS_INERT),
    FIXED("SCR_GLOBAL_RESTART", TYPE_BOOL, CLASS_LAUNCH),
    LEVER("SCR_GROUP", TYPE_TEXT, CLASS_REINIT, BY_REINIT, "scr_group"),
    FIXED("SCR_HALT_EXIT", TYPE_BOOL, CLASS_LAUNCH),
    FIXED_NUMBER("SCR_HALT_SECONDS", TYPE_INT, INT_MIN, INT_MAX, CLASS_LAUNCH),
    FIXED("SCR_JOB_ID", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_JOB_NAME", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_LOG_DB_DEBUG", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_LOG_DB_ENABLE", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_LOG_DB_HOST", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_LOG_DB_NAME", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_LOG_DB_PASS", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_LOG_DB_USER", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_LOG_ENABLE", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_LOG_SYSLOG_ENABLE", TYPE_BOOL, CLASS_LAUNCH),
    FIXED("SCR_LOG_TXT_ENABLE", TYPE_BOOL, CLASS_LAUNCH),
    FIXED_NUMBER("SCR_MIN_NODES", TYPE_INT, INT_MIN, INT_MAX, CLASS_LAUNCH),
    LEVER_NUMBER("SCR_MPI_BUF_SIZE", TYPE_BYTES, 1, INT_MAX, CLASS_LIVE, BY_ER, "ER_Config"),
    FIXED("SCR_NODELIST", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_NODE_TESTS", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_PREFIX", TYPE_PATH, CLASS_LAUNCH),
    FIXED("SCR_PREFIX_PURGE", TYPE_BOOL, CLASS_LAUNCH),
    LEVER_NUMBER("SCR_PREFIX_SIZE", TYPE_INT, INT_MIN, INT_MAX, CLASS_LIVE, BY_INT, "scr_prefix_size"),
    FIXED_NUMBER("SCR_RETRIES", TYPE_INT, INT_MIN, INT_MAX, CLASS_LAUNCH),
    FIXED_NUMBER("SCR_RUNS", TYPE_INT, INT_MIN, INT_MAX, CLASS_LAUNCH),
    LEVER_NUMBER("SCR_SET_FAILURES", TYPE_INT, 1, INT_MAX, CLASS_REINIT, BY_REINIT, "scr_set_failures"),
    LEVER_NUMBER("SCR_SET_SIZE", TYPE_INT, 1, INT_MAX, CLASS_REINIT, BY_REINIT, "scr_set_size"),
    FIXED("SCR_USER_NAME", TYPE_TEXT, CLASS_LAUNCH),
    FIXED("SCR_WATCHDOG", TYPE_BOOL, CLASS_LAUNCH),
    FIXED_NUMBER("SCR_WATCHDOG_TIMEOUT", TYPE_INT, INT_MIN, INT_MAX, CLASS_LAUNCH),
    FIXED_NUMBER("SCR_WATCHDOG_TIMEOUT_PFS", TYPE_INT, INT_MIN, INT_MAX, CLASS_LAUNCH),
};

const size_t lever_count = sizeof levers / sizeof levers[0];
_Static_assert(sizeof levers / sizeof levers[0] <= LEVER_LIMIT, "make LEVER_LIMIT larger");

static const char *const type_names[] = {"bool", "int", "bytes", "float", "enum", "text", "path", "cpus"};
static const char *const class_names[] = {"live", "live on rank 0", "re-init", "launch", "inert"};

const char *class_name(lever_class class)
{
    return class_names[class];
}

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
double lever_float(const char *value)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        return NAN;
    }
    const double number = strtod_l(value, NULL, c_locale);
    freelocale(c_locale);
    return number;
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
    const char *at = value + (*value == '-');
    size_t digits = strspn(at, "0123456789");
    at += digits;
    if (*at == '.') {
        const size_t behind = strspn(++at, "0123456789");
        at += behind;
        digits += behind;
    }
    if (digits == 0) {
        return false;
    }
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '-' || at[1] == '+');
        const size_t exponent = strspn(at, "0123456789");
        if (exponent == 0) {
            return false;
        }
        at += exponent;
    }
    return *at == '\0' && isfinite(lever_float(value));
}

/* `choices` begins and ends with a space: a `value` without one is never found at either end. */
static bool is_choice(const char *choices, const char *value)
{
    const size_t length = strlen(value);
    if (length == 0 || strchr(value, ' ') != NULL) {
        return false;
    }
    for (const char *at = choices; (at = strstr(at, value)) != NULL; at += length) {
        if (at[-1] == ' ' && at[length] == ' ') {
            return true;
        }
    }
    return false;
}

bool lever_accepts(const lever *given, const char *value)
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

/* One to four digits at `*text`, or -1. */
static long cpu_number(const char **text)
{
    const size_t length = strspn(*text, "0123456789");
    if (length < 1 || length > 4) {
        return -1;
    }
    const long number = strtol(*text, NULL, 10);
    *text += length;
    return number;
}

bool cpus_of(const char *text, cpus *set)
{
    memset(set, 0, sizeof *set);
    while (*text != '\0') {
        const long first = cpu_number(&text);
        long last = first;
        if (first >= 0 && *text == '-') {
            text++;
            last = cpu_number(&text);
        }
        if (first < 0 || last < first || last >= CPU_LIMIT) {
            return false;
        }
        for (long cpu = first; cpu <= last; cpu++) {
            CPU_SET_S((size_t)cpu, sizeof *set, set->words);
        }
        if (*text == ',' && text[1] != '\0') {
            text++;
        } else if (*text != '\0') {
            return false;
        }
    }
    return true;
}

/* One line "NAME type minimum maximum class" for every lever, "-" where there is no bound. */
SCRTUNE_API const char *scrtune_levers(void)
{
    static char lines[LEVER_LIMIT * 96];
    size_t used = 0;
    for (size_t i = 0; i < lever_count; i++) {
        char bounds[64] = "- -";
        if (levers[i].type == TYPE_INT || levers[i].type == TYPE_BYTES) {
            snprintf(bounds, sizeof bounds, "%lld %lld", levers[i].minimum, levers[i].maximum);
        }
        const int length = snprintf(lines + used, sizeof lines - used, "%s %s %s %s\n", levers[i].name,
                                    type_names[levers[i].type], bounds, class_names[levers[i].class]);
        if (length < 0 || (size_t)length >= sizeof lines - used) {
            break;
        }
        used += (size_t)length;
    }
    return lines;
}
