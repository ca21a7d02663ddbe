/* SCR_Finalize and SCR_Init in the middle of a job, for what SCR reads only in SCR_Init.
 *
 * The environment wins over every other source of SCR's settings, and every rank reads it for itself: the values
 * are there while SCR_Init runs, and the environment is the application's own again afterwards.
 */
#include "scrtune.h"

#include <stdlib.h>
#include <string.h>

/* scr_conf.h */
static const struct {
    const char *name;
    int number;
} schemes[] = {{"SINGLE", 1}, {"PARTNER", 2}, {"XOR", 4}, {"FILE", 8}, {"RS", 16}};
enum { SCHEME_FILE = 8 };

/* What SCR_Init must not do in the middle of a job, whatever the configuration has become meanwhile: end the job
 * for a halt condition (that is for SCR_Complete_output), delete or flush what is cached. */
static const char *const held[][2] = {
    {"SCR_HALT_EXIT", "0"},    {"SCR_DISTRIBUTE", "1"},     {"SCR_CACHE_PURGE", "0"},
    {"SCR_PREFIX_PURGE", "0"}, {"SCR_GLOBAL_RESTART", "0"}, {"SCR_FLUSH_ON_RESTART", "0"},
    {"SCR_LOG_ENABLE", "0"},   {"SCR_ENABLE", "1"},
};
enum { HELD = COUNT(held) };

/* Where the datasets are that SCR_Init must find again, and whose they are. */
static const char *const places[][2] = {
    {"SCR_PREFIX", "scr_prefix"}, {"SCR_CACHE_BASE", "scr_cache_base"}, {"SCR_CNTL_BASE", "scr_cntl_base"},
    {"SCR_JOB_ID", "scr_jobid"},  {"SCR_USER_NAME", "scr_username"},
};
enum { PLACES = COUNT(places) };

/* Variables that SCR_Init sets from what is held. */
static const char *const kept[] = {"scr_halt_exit", "scr_flush_on_restart", "scr_log_enable"};
enum { KEPT = COUNT(kept) };

/* Numbers that must not fall: SCR_Init starts again at 0 when nothing is cached. */
static const char *const rising[] = {"scr_dataset_id", "scr_checkpoint_id", "scr_ckpt_dset_id",
                                     "scr_need_checkpoint_count"};
enum { RISING = COUNT(rising) };

static struct {
    const char *name;
    char *value, *before;
} changes[LEVER_LIMIT + HELD + PLACES];
static size_t change_count;

reinit_stage reinit_now;
bool has_seen_halt;

/* What the application set by SCR_Config, which SCR forgets when it is initialized again. */
static struct {
    char **lines;
    size_t count;
    bool is_lost;
} configs;

void configs_record(const char *config)
{
    if (config == NULL || strchr(config, '=') == NULL) { /* it only asks */
        return;
    }
    char **lines = realloc(configs.lines, (configs.count + 1) * sizeof *lines);
    char *line = strdup(config);
    configs.lines = lines != NULL ? lines : configs.lines;
    if (lines == NULL || line == NULL) {
        configs.is_lost = true;
        free(line);
        return;
    }
    configs.lines[configs.count++] = line;
}

void configs_forget(void)
{
    for (size_t i = 0; i < configs.count; i++) {
        free(configs.lines[i]);
    }
    free(configs.lines);
    memset(&configs, 0, sizeof configs);
}

static void replay_configs(void)
{
    const char *(*config)(const char *);
    RESOLVE(config, real_function("SCR_Config"));
    for (size_t i = 0; config != NULL && i < configs.count; i++) {
        config(configs.lines[i]);
    }
}

/* ---- whether it may be done */

static bool is_all_shown(void)
{
    static const char *const functions[] = {"scr_flush_async_waitall", "scr_flush_file_need_flush", "scr_flush_sync"};
    bool is_shown = real_function("SCR_Finalize") != NULL && scr_text("scr_group") != NULL &&
                    scr_text("scr_flush_type") != NULL && scr_variable("scr_cindex", sizeof(void *)) != NULL;
    for (size_t i = 0; i < COUNT(functions); i++) {
        is_shown &= scr_symbol(functions[i]) != NULL;
    }
    for (size_t i = 0; i < PLACES; i++) {
        is_shown &= scr_text(places[i][1]) != NULL;
    }
    for (size_t i = 0; i < KEPT + RISING; i++) {
        is_shown &= scr_variable(i < KEPT ? kept[i] : rising[i - KEPT], sizeof(int)) != NULL;
    }
    return is_shown;
}

bool reinit_safe(char why[WHY_LIMIT])
{
    if (!is_all_shown()) {
        return fault(why, "this libscr does not show what a re-init needs");
    }
    for (size_t i = 0; i < PLACES; i++) {
        if (strchr(scr_text(places[i][1]), '$') != NULL) {
            return fault(why, "SCR would expand the $ in %s", places[i][0]);
        }
    }
    if (configs.is_lost) {
        return fault(why, "the application's own SCR_Config settings could not be remembered");
    }
    /* a purge of the cache may be meant for the start alone (scrtune run --clean-start): `held` takes it out */
    if (scr_int("scr_distribute", 0) == 0 || scr_int("scr_prefix_purge", 1) != 0 ||
        scr_int("scr_global_restart", 1) != 0) {
        return fault(why, "a re-init would delete checkpoints with these settings of SCR");
    }
    if (scr_int("scr_copy_type", SCHEME_FILE) == SCHEME_FILE || scr_int("scr_flush_poststage", 1) != 0) {
        return fault(why, "CKPT lines or SCR_FLUSH_POSTSTAGE are in use");
    }
    if (scr_int("scr_my_rank_world", -1) == 0 && !has_seen_halt) {
        return fault(why, "SCR's halt file cannot be kept from saying that the job ended");
    }
    return true;
}

static const char *scheme_named(int number)
{
    for (size_t i = 0; i < COUNT(schemes); i++) {
        if (schemes[i].number == number) {
            return schemes[i].name;
        }
    }
    return "";
}

static bool is_in_force(const lever *given, const char *value)
{
    if (given->type == TYPE_TEXT || strcmp(given->name, "SCR_FLUSH_TYPE") == 0) {
        const char *now = scr_text(given->symbol);
        return now != NULL && strcmp(now, value) == 0;
    }
    const int *now = scr_variable(given->symbol, sizeof *now);
    if (now == NULL) {
        return false;
    }
    return given->type == TYPE_ENUM ? strcmp(scheme_named(*now), value) == 0 : *now == lever_integer(value);
}

bool reinit_needless(const decision *given)
{
    for (size_t i = 0; i < given->count; i++) {
        const lever *each = given->entries[i].lever;
        if (job.classes[each - levers] == CLASS_REINIT && !is_in_force(each, given->entries[i].value)) {
            return false;
        }
    }
    return true;
}

static long long wanted_integer(const decision *given, const char *name, const char *symbol)
{
    const char *value = decision_value(given, name);
    return value != NULL ? lever_integer(value) : scr_int(symbol, 0);
}

/* redset aborts the job when a set is too small: scr_reddesc.c, redset_xor.c, redset_reedsolomon.c. Sets are made
 * of as many ranks as there are nodes, or SCR_SET_SIZE, whichever is smaller. */
static bool sets_acceptable(const decision *given, int nodes, char why[WHY_LIMIT])
{
    const char *wanted = decision_value(given, "SCR_COPY_TYPE");
    const char *scheme = wanted != NULL ? wanted : scheme_named(scr_int("scr_copy_type", SCHEME_FILE));
    const char *group = decision_value(given, "SCR_GROUP");
    const long long size = wanted_integer(given, "SCR_SET_SIZE", "scr_set_size");
    const long long failures = wanted_integer(given, "SCR_SET_FAILURES", "scr_set_failures");
    const long long smallest = size < nodes ? size : nodes;
    if (failures > size) {
        return fault(why, "SCR_SET_FAILURES would be larger than SCR_SET_SIZE");
    }
    /* SCR would look into a group that it does not have (scr_reddesc.c) */
    if (group != NULL && strcmp(group, "NODE") != 0 && strcmp(group, scr_text("scr_group")) != 0) {
        return fault(why, "whether SCR has such a SCR_GROUP is not known");
    }
    if (strcmp(scheme, "SINGLE") == 0 || nodes == 1) {
        return true; /* SCR takes SINGLE on one node */
    }
    if (nodes == 0) {
        return fault(why, "redundancy sets over nodes with different numbers of ranks are left as they are");
    }
    if (strcmp(group != NULL ? group : scr_text("scr_group"), "NODE") != 0) {
        return fault(why, "redundancy sets are made over SCR_GROUP=NODE only");
    }
    if (smallest < 2 || (strcmp(scheme, "RS") == 0 && failures >= smallest)) {
        return fault(why, "the redundancy sets would be too small for this scheme");
    }
    return true;
}

bool reinit_acceptable(const decision *given, int nodes, char why[WHY_LIMIT])
{
    static const char *const needs_care[] = {"SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES", "SCR_GROUP"};
    bool is_care_needed = false;
    for (size_t i = 0; i < COUNT(needs_care); i++) {
        const char *value = decision_value(given, needs_care[i]);
        is_care_needed |= value != NULL && !is_in_force(lever_named(needs_care[i]), value);
    }
    const char *scheme = decision_value(given, "SCR_COPY_TYPE");
    if (scheme != NULL && strcmp(scheme, "FILE") == 0) {
        return fault(why, "SCR_COPY_TYPE=FILE needs CKPT lines, and is for the next launch");
    }
    const char *type = decision_value(given, "SCR_FLUSH_TYPE");
    const bool has_type = type == NULL || strcmp(type, "SYNC") == 0 ||
                          (strcmp(type, "PTHREAD") == 0 && scr_symbol("axl_pthread_start") != NULL);
    if (!has_type && !is_in_force(lever_named("SCR_FLUSH_TYPE"), type)) {
        return fault(why, "whether this AXL has such a SCR_FLUSH_TYPE is not known, and a failing flush ends the job");
    }
    return !is_care_needed || sets_acceptable(given, nodes, why);
}

/* ---- doing it */

static bool add_change(const char *name, const char *value)
{
    const size_t i = change_count++;
    const char *before = getenv(name);
    changes[i].name = name;
    changes[i].value = value != NULL ? strdup(value) : NULL;
    changes[i].before = before != NULL ? strdup(before) : NULL;
    return changes[i].value != NULL && (before == NULL || changes[i].before != NULL);
}

static void forget_changes(void)
{
    for (size_t i = 0; i < change_count; i++) {
        free(changes[i].value);
        free(changes[i].before);
    }
    change_count = 0;
}

bool reinit_prepare(const decision *given)
{
    bool is_prepared = true;
    forget_changes();
    if (!job.may_reinit) {
        return true;
    }
    for (size_t i = 0; i < PLACES; i++) {
        is_prepared &= add_change(places[i][0], scr_text(places[i][1]));
    }
    for (size_t i = 0; i < HELD; i++) {
        is_prepared &= add_change(held[i][0], held[i][1]);
    }
    for (size_t i = 0; i < given->count; i++) {
        const lever *each = given->entries[i].lever;
        const lever_class class = job.classes[each - levers];
        if (strncmp(each->name, "SCR_", 4) == 0 && class != CLASS_LAUNCH && class != CLASS_INERT) {
            is_prepared &= add_change(each->name, given->entries[i].value);
        }
    }
    return is_prepared;
}

static void restore_environment(void)
{
    for (size_t i = 0; i < change_count; i++) {
        if (changes[i].before != NULL) {
            setenv(changes[i].name, changes[i].before, 1);
        } else {
            unsetenv(changes[i].name);
        }
    }
    forget_changes();
}

/* What SCR_Finalize would flush, while SCR logs it. Collective. */
static void flush_newest(void)
{
    int (*await_flushes)(void *);
    int (*is_due)(int);
    int (*flush)(void *, int);
    void *const *index = scr_variable("scr_cindex", sizeof *index);
    const int newest = scr_int("scr_ckpt_dset_id", 0);
    RESOLVE(await_flushes, scr_symbol("scr_flush_async_waitall"));
    RESOLVE(is_due, scr_symbol("scr_flush_file_need_flush"));
    RESOLVE(flush, scr_symbol("scr_flush_sync"));
    await_flushes(*index);
    if (scr_int("scr_flush", 0) > 0 && is_due(newest)) {
        flush(*index, newest);
    }
}

void reinit_run(void)
{
    int (*finalize)(void);
    int (*init)(void);
    int before[KEPT], numbers[RISING];
    RESOLVE(finalize, real_function("SCR_Finalize"));
    RESOLVE(init, real_function("SCR_Init"));
    for (size_t i = 0; i < KEPT; i++) {
        before[i] = scr_int(kept[i], 0);
    }
    for (size_t i = 0; i < RISING; i++) {
        numbers[i] = scr_int(rising[i], 0);
    }
    flush_newest();
    /* SCR_Finalize closes SCR's log, SCR_Init does not open it again, and the next line in it would end the job
     * (scr_log.c:799, 944; scr_io.c:374): neither of them sees that there is a log. */
    scr_set_int("scr_log_enable", 0);
    reinit_now = REINIT_FINALIZING;
    finalize();
    for (size_t i = 0; i < change_count; i++) {
        setenv(changes[i].name, changes[i].value, 1);
    }
    replay_configs();
    reinit_now = REINIT_INITIALIZING;
    if (init() != SCR_SUCCESS) {
        tell("SCR_Init failed when SCR was initialized again");
    }
    reinit_now = REINIT_NONE;
    restore_environment();
    for (size_t i = 0; i < KEPT; i++) {
        scr_set_int(kept[i], before[i]);
    }
    for (size_t i = 0; i < RISING; i++) {
        if (scr_int(rising[i], 0) < numbers[i]) {
            scr_set_int(rising[i], numbers[i]);
        }
    }
    live_begin();
}
