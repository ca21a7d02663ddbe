/* What changes while SCR runs: its exported variables, its components' own configuration. */
#include "scrtune.h"

#include <math.h>
#include <string.h>

/* SCR creates its list of running flushes in SCR_Init only when SCR_FLUSH_ASYNC is 1 there. A second list would
 * lose what is in the first. */
static bool has_async_list;

/* By AXL_Config or ER_Config: sets `bytes` when they are not 0, and returns what is in force, 0 if unknown. */
static unsigned long component(const lever *given, unsigned long bytes)
{
    const char *key = given->means == BY_AXL ? "FILE_BUF_SIZE" : "MPI_BUF_SIZE"; /* axl.h, er.h */
    void *(*configure)(const void *);
    void *(*create)(void);
    int (*destroy)(void **);
    int (*put)(void *, const char *, unsigned long);
    int (*get)(const void *, const char *, unsigned long *);
    RESOLVE(configure, scr_symbol(given->symbol));
    RESOLVE(create, scr_symbol("kvtree_new"));
    RESOLVE(destroy, scr_symbol("kvtree_delete"));
    RESOLVE(put, scr_symbol("kvtree_util_set_bytecount"));
    RESOLVE(get, scr_symbol("kvtree_util_get_bytecount"));
    if (configure == NULL || create == NULL || destroy == NULL || put == NULL || get == NULL) {
        return 0;
    }
    if (bytes != 0) {
        void *wanted = create();
        if (wanted != NULL && put(wanted, key, bytes) == 0) {
            configure(wanted);
        }
        destroy(&wanted);
    }
    unsigned long actual = 0;
    void *answer = configure(NULL);
    if (answer == NULL || get(answer, key, &actual) != 0) {
        actual = 0;
    }
    destroy(&answer);
    return actual;
}

static bool component_verified(const lever *given)
{
    const unsigned long before = component(given, 0);
    if (before == 0) {
        return false;
    }
    const unsigned long other = before > 1 ? before - 1 : before + 1; /* SCR_MPI_BUF_SIZE may be the largest int */
    const bool is_taken = component(given, other) == other;
    return component(given, before) == before && is_taken;
}

bool live_verified(const lever *given)
{
    switch (given->means) {
    case BY_INT:
        return scr_variable(given->symbol, sizeof(int)) != NULL;
    case BY_DOUBLE:
        return scr_variable(given->symbol, sizeof(double)) != NULL;
    case BY_ASYNC:
        /* with SCR_FLUSH_POSTSTAGE=1 SCR crashes in an asynchronous flush (scr_flush_async.c) */
        return scr_variable(given->symbol, sizeof(int)) != NULL && scr_symbol("scr_flush_async_init") != NULL &&
               scr_symbol("scr_flush_async_in_progress") != NULL && scr_int("scr_flush_poststage", 0) == 0;
    case BY_AXL:
    case BY_ER:
        return component_verified(given);
    case BY_CPUS:
    case BY_NICE:
    case BY_THREADS:
    case BY_BEHIND:
        return real_function(given->symbol) != NULL;
    case BY_REINIT:
    case BY_NOTHING:
        break;
    }
    return false;
}

void live_begin(void)
{
    has_async_list = scr_int("scr_flush_async", 0) != 0;
    flush_use_cpus(NULL);
    flush_use_nice(0);
    flush_use_threads(0);
    behind_use(false);
}

/* From 1 to 0 nothing is lost: SCR looks after the flushes that run, whatever the variable says. */
static void apply_async(const char *symbol, int wanted)
{
    if (wanted && !has_async_list) {
        int (*create_list)(void);
        int (*is_busy)(void);
        RESOLVE(create_list, scr_symbol("scr_flush_async_init"));
        RESOLVE(is_busy, scr_symbol("scr_flush_async_in_progress"));
        if (create_list == NULL || is_busy == NULL || (!is_busy() && create_list() != SCR_SUCCESS)) {
            return;
        }
        has_async_list = true;
    }
    scr_set_int(symbol, wanted);
}

void live_apply(const lever *given, const char *value)
{
    switch (given->means) {
    case BY_INT:
        scr_set_int(given->symbol, (int)lever_integer(value));
        break;
    case BY_DOUBLE: {
        double *variable = scr_variable(given->symbol, sizeof *variable);
        const double number = lever_float(value);
        if (variable != NULL && isfinite(number)) {
            *variable = number;
        }
        break;
    }
    case BY_ASYNC:
        apply_async(given->symbol, (int)lever_integer(value));
        break;
    case BY_AXL:
    case BY_ER:
        component(given, (unsigned long)lever_integer(value));
        break;
    case BY_CPUS: {
        cpus wanted;
        flush_use_cpus(value[0] != '\0' && cpus_of(value, &wanted) ? &wanted : NULL);
        break;
    }
    case BY_NICE:
        flush_use_nice((int)lever_integer(value));
        break;
    case BY_THREADS:
        flush_use_threads((unsigned int)lever_integer(value));
        break;
    case BY_BEHIND:
        behind_use(lever_integer(value) != 0);
        break;
    case BY_REINIT:
    case BY_NOTHING:
        break;
    }
}
