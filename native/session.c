/* Who takes part, and the collective point at which a decision is put in force on all ranks or on none.
 *
 * A rank without this library would wait for ever in a broadcast that only the others make. So nothing collective
 * is done before SCR's own collective, in the first SCR_Complete_output, has counted the ranks that have it
 * (sharing.c): until then no decision is looked at. No rank waits for another but where SCR itself waits for it.
 */
#include "scrtune.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

session job;

static struct {
    int (*broadcast_text)(char **, int, communicator); /* scr_str_bcast */
    int (*is_true_everywhere)(int, communicator);      /* scr_alltrue */
    int (*size)(communicator, int *);                  /* MPI_Comm_size */
    int (*next)(int, const int *, int *, int *);       /* scr_next_dataset: the smallest number in ranks' lists */
} mpi;

int nodes_seen;
static int even_nodes; /* 0 when they have different numbers of ranks */

/* What was applied last, with the text that it points into. */
static decision in_force;
static char *in_force_text;

static double now_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double epoch_s(void)
{
    return now_s(CLOCK_REALTIME);
}

double monotonic_s(void)
{
    return now_s(CLOCK_MONOTONIC);
}

double thread_s(void)
{
    return now_s(CLOCK_THREAD_CPUTIME_ID);
}

void tell(const char *text)
{
    enum { MOST = 16 };
    static char last[WHY_LIMIT];
    static int told;
    if (job.is_root && strncmp(last, text, sizeof last - 1) != 0 && told < MOST) {
        told++;
        snprintf(last, sizeof last, "%s", text);
        dprintf(STDERR_FILENO, "scrtune: %s\n", text);
    }
}

bool is_kind_apart(void)
{
    return (job.kinds_apart >> job.kind & 1) != 0;
}

static communicator world(void)
{
    communicator found = 0;
    communicator_named("scr_comm_world", &found);
    return found;
}

bool all_true(bool is_true)
{
    return mpi.is_true_everywhere(is_true, world()) != 0;
}

int least_of_all(int number)
{
    int index = 0, least = 0;
    mpi.next(1, &number, &index, &least);
    return least;
}

static bool has_mpi(void)
{
    communicator unused;
    RESOLVE(mpi.broadcast_text, scr_symbol("scr_str_bcast"));
    RESOLVE(mpi.is_true_everywhere, scr_symbol("scr_alltrue"));
    RESOLVE(mpi.size, scr_symbol("MPI_Comm_size"));
    RESOLVE(mpi.next, scr_symbol("scr_next_dataset"));
    return mpi.broadcast_text != NULL && mpi.is_true_everywhere != NULL && mpi.size != NULL &&
           communicator_named("scr_comm_world", &unused) && communicator_named("scr_comm_node", &unused);
}

/* Collective: the number of nodes; 0 when it is not known, or when they have different numbers of ranks. */
static int find_even_nodes(void)
{
    int node_size = 0;
    communicator node = 0;
    communicator_named("scr_comm_node", &node);
    mpi.size(node, &node_size);
    return all_true(job.nodes * node_size == scr_int("scr_ranks_world", 0)) ? job.nodes : 0;
}

/* What this rank could do with this libscr. */
static void find_classes(void)
{
    char why[WHY_LIMIT] = "";
    job.may_reinit = reinit_safe(why);
    if (!job.may_reinit) {
        tell(why);
    }
    for (size_t i = 0; i < lever_count; i++) {
        if (levers[i].means == BY_REINIT) {
            job.classes[i] = job.may_reinit ? CLASS_REINIT : CLASS_LAUNCH;
        } else if (levers[i].means != BY_NOTHING) {
            job.classes[i] = live_verified(&levers[i]) ? levers[i].class : CLASS_LAUNCH;
        }
    }
}

/* Collective: whether every rank can do what rank 0 has reported. */
static bool agree_on_classes(void)
{
    bool is_kept = true;
    for (size_t i = 0; i < lever_count; i++) {
        const bool is_possible = job.classes[i] != CLASS_LAUNCH;
        if (levers[i].means != BY_NOTHING && !all_true(is_possible)) {
            is_kept &= !is_possible;
            job.classes[i] = CLASS_LAUNCH;
        }
    }
    job.may_reinit = all_true(job.may_reinit);
    return all_true(is_kept || !job.is_root);
}

static const char *decision_path(void)
{
    const char *path = getenv("SCRTUNE_DECISION_FILE");
    return path != NULL && path[0] != '\0' ? path : NULL;
}

static void forget_in_force(void)
{
    free(in_force_text);
    in_force_text = NULL;
    in_force.count = 0;
}

void session_begin(double init_s)
{
    memset(&job, 0, sizeof job);
    job.generation = -1;
    job.nodes = nodes_seen;
    job.is_root = scr_int("scr_my_rank_world", -1) == 0;
    for (size_t i = 0; i < lever_count; i++) {
        job.classes[i] = levers[i].class == CLASS_INERT ? CLASS_INERT : CLASS_LAUNCH;
    }
    even_nodes = 0;
    forget_in_force();
    decision_forget();
    live_begin();
    behind_forget();
    flush_forget();
    if (decision_path() != NULL && scr_int("scr_initialized", 0) == 1 && has_mpi()) {
        job.is_willing = true;
        find_classes();
    }
    scrtune_observe_begin(scr_text("scr_prefix"));
    if (job.is_root) {
        event_started(init_s);
    }
}

void session_counted(unsigned long here)
{
    if (here != (unsigned long)scr_int("scr_ranks_world", 0)) {
        job.is_willing = false;
        tell("some ranks run without libscrtune.so: settings stay as they are (is it on a file system that all "
             "nodes see?)");
        return;
    }
    even_nodes = find_even_nodes();
    job.is_bypass_own = all_true(scr_int("scr_cache_bypass", 0) == 1);
    job.is_engaged = agree_on_classes();
    job.is_willing = job.is_engaged;
    job.can_compare = job.is_engaged && all_true(mpi.next != NULL);
    if (!job.is_engaged) {
        tell("the ranks have different libraries of SCR: settings stay as they are");
    }
}

void session_end(void)
{
    EVENT("job_ended", SECONDS("time_s", epoch_s()));
    memset(&job, 0, sizeof job);
    forget_in_force();
    configs_forget();
}

static void refuse(long generation, const char *why, bool is_bypass_back)
{
    tell(why);
    EVENT("apply_refused", NUMBER("generation", generation < 0 ? 0 : generation), TEXT("why", why),
          JSON(ONLY(is_bypass_back, "in_force"), "{\"SCR_CACHE_BYPASS\":1}"));
}

/* Rank 0: the text of a decision that is new, or NULL. */
static char *new_decision(void)
{
    char why[WHY_LIMIT] = "";
    const char *path = decision_path();
    char *text = path != NULL && scr_int("scr_in_output", 0) == 0 ? decision_look(path, why) : NULL;
    if (why[0] != '\0') {
        refuse(-1, why, false);
    }
    return text;
}

static void apply_live(const decision *found)
{
    for (size_t i = 0; i < found->count; i++) {
        const lever *each = found->entries[i].lever;
        const lever_class class = job.classes[each - levers];
        if (class == CLASS_LIVE || class == CLASS_LIVE_ON_RANK_0) {
            live_apply(each, found->entries[i].value);
        }
    }
}

/* Collective: a libscr that does not take a value is not initialized again for it. */
static void check_reinit(const decision *found)
{
    if (!all_true(reinit_needless(found))) {
        tell("this SCR does not take all values in SCR_Init: such settings wait for the next launch");
        job.may_reinit = false;
        for (size_t i = 0; i < lever_count; i++) {
            job.classes[i] = levers[i].means == BY_REINIT ? CLASS_LAUNCH : job.classes[i];
        }
    }
}

/* Whether nobody else can have a hand in the user's directory in the cache: SCR itself uses any. */
static bool is_cache_private(void)
{
    const char *base = scr_text("scr_cache_base"), *user = scr_text("scr_username");
    char path[PATH_MAX];
    struct stat there;
    if (base == NULL || user == NULL || snprintf(path, sizeof path, "%s/%s", base, user) >= (int)sizeof path) {
        return false;
    }
    if (lstat(path, &there) != 0) {
        return errno == ENOENT;
    }
    return S_ISDIR(there.st_mode) && there.st_uid == geteuid() && (there.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The cache is for applications whose files have places of their own there, where nobody else writes. */
static bool may_cache(const decision *found, char why[WHY_LIMIT])
{
    const char *bypass = decision_value(found, "SCR_CACHE_BYPASS");
    if (bypass == NULL || strcmp(bypass, "0") != 0 || !job.is_bypass_own || job.is_cached_by_us) {
        return true;
    }
    const bool is_private = is_cache_private();
    if (is_private && job.kinds_apart != 0 && !job.do_files_meet && !job.is_cache_barred) {
        return true;
    }
    return fault(why, "SCR_CACHE_BYPASS=0: %s",
                 !is_private           ? "your directory in SCR_CACHE_BASE is a link, or others may write there"
                 : job.do_files_meet   ? "files of several ranks would meet in the cache"
                 : job.is_cache_barred ? "another kind of output has begun, which was not seen before"
                                       : "no output was seen yet whose files have places of their own in the cache");
}

/* Collective. */
static void initialize_again(const decision *wanted)
{
    reinit_run();
    apply_live(wanted);
    check_reinit(wanted);
    job.is_cached_by_us = job.is_bypass_own && !all_true(scr_int("scr_cache_bypass", 1) != 0);
}

typedef enum { HOW_NOT, HOW_LIVE, HOW_REINIT } apply_how;

/* Collective, on every rank with the same text: no way out between the votes depends on one rank alone. */
static apply_how apply_text(char *text)
{
    char why[WHY_LIMIT] = "a rank cannot apply the decision";
    decision found;
    bool is_ready = decision_read(text, strlen(text), &found, why);
    const bool is_reinit_wanted = is_ready && !reinit_needless(&found);
    if (is_reinit_wanted) {
        is_ready = reinit_safe(why) && reinit_acceptable(&found, even_nodes, why) && may_cache(&found, why);
    }
    is_ready = is_ready && reinit_prepare(&found);
    if (!all_true(is_ready)) {
        refuse(found.generation, why, false);
        free(text);
        return HOW_NOT;
    }
    const bool is_reinit = !all_true(!is_reinit_wanted);
    if (is_reinit) {
        initialize_again(&found);
    } else {
        apply_live(&found);
    }
    forget_in_force();
    in_force = found;
    in_force_text = text;
    job.generation = found.generation;
    return is_reinit ? HOW_REINIT : HOW_LIVE;
}

/* Collective: the cache that a decision has chosen is left before an output that may not be for it. */
static bool leave_cache(void)
{
    char why[WHY_LIMIT] = "this kind of output was not seen before, and its files might meet in the cache: "
                          "SCR_CACHE_BYPASS is 1 again";
    if (!job.is_cached_by_us || all_true(is_kind_apart() && !job.do_files_meet)) {
        return false;
    }
    job.is_cache_barred = true;
    decision_put(&in_force, "SCR_CACHE_BYPASS", "1");
    if (!all_true(reinit_safe(why) && reinit_prepare(&in_force))) {
        refuse(job.generation, why, false);
        return false;
    }
    initialize_again(&in_force);
    refuse(job.generation, why, true);
    return true;
}

void session_apply(int kind)
{
    job.kind = kind;
    if (!job.is_engaged) {
        return;
    }
    const double entered_s = epoch_s();
    char *text = job.is_root ? new_decision() : NULL;
    mpi.broadcast_text(&text, 0, world());
    apply_how how = text != NULL ? apply_text(text) : HOW_NOT;
    if (leave_cache()) {
        how = HOW_REINIT;
    }
    if (how != HOW_NOT) {
        EVENT("applied", SECONDS("time_s", epoch_s()), NUMBER("generation", job.generation),
              TEXT("how", how == HOW_REINIT ? "re-init" : "live"), SECONDS("seconds", epoch_s() - entered_s));
    }
}

files_seen session_completed(bool is_valid)
{
    const files_seen here = sharing_seen();
    if (job.is_willing && !job.is_engaged) { /* it was not asked for the names of files */
        job.is_willing = false;
        tell("with this SCR it is not known whether all ranks have libscrtune.so: settings stay as they are");
    }
    if (!job.is_engaged || !job.is_bypass_own || here == FILES_NOT_LOOKED_AT) {
        return FILES_UNKNOWN;
    }
    const bool are_apart = all_true(here == FILES_APART && is_valid);
    const bool do_meet = !are_apart && !all_true(here != FILES_MEET);
    job.kinds_apart |= (unsigned)are_apart << job.kind;
    job.do_files_meet |= do_meet;
    return do_meet ? FILES_MEET : are_apart ? FILES_APART : FILES_UNKNOWN;
}
