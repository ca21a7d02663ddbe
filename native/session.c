/* Who takes part, and the collective point at which a decision is put in force on all ranks or on none.
 *
 * A rank without this library would wait for ever in a broadcast that only the others make. So nothing collective
 * is done before a barrier that does not block has shown, within a bounded time, that every rank is here.
 */
#include "scrtune.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef SCRTUNE_PATIENCE_S
#define SCRTUNE_PATIENCE_S 30.0
#endif

/* MPI_Comm is an int in MPICH and a pointer in Open MPI: either is passed as a long. */
typedef long communicator;

session job;

static struct {
    int (*broadcast_text)(char **, int, communicator); /* scr_str_bcast */
    int (*is_true_everywhere)(int, communicator);      /* scr_alltrue */
    int (*barrier)(communicator, void *);              /* MPI_Ibarrier */
    int (*test)(void *, int *, void *);                /* MPI_Test */
    int (*size)(communicator, int *);                  /* MPI_Comm_size */
} mpi;

double epoch_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void tell(const char *text)
{
    enum { MOST = 16 };
    static char last[WHY_LIMIT];
    static int told;
    if (strncmp(last, text, sizeof last - 1) != 0 && told < MOST) {
        told++;
        snprintf(last, sizeof last, "%s", text);
        dprintf(STDERR_FILENO, "scrtune: %s\n", text);
    }
}

/* The communicator in `name`, or false. */
static bool communicator_named(const char *name, communicator *found)
{
    const int32_t *number = scr_variable(name, sizeof *number);
    const communicator *pointer = scr_variable(name, sizeof *pointer);
    if (number != NULL) {
        *found = *number;
    } else if (pointer != NULL) {
        *found = *pointer;
    }
    return number != NULL || pointer != NULL;
}

static communicator world(void)
{
    communicator found = 0;
    communicator_named("scr_comm_world", &found);
    return found;
}

static bool all_true(bool is_true)
{
    return mpi.is_true_everywhere(is_true, world()) != 0;
}

static bool has_mpi(void)
{
    communicator unused;
    RESOLVE(mpi.broadcast_text, scr_symbol("scr_str_bcast"));
    RESOLVE(mpi.is_true_everywhere, scr_symbol("scr_alltrue"));
    RESOLVE(mpi.barrier, scr_symbol("MPI_Ibarrier"));
    RESOLVE(mpi.test, scr_symbol("MPI_Test"));
    RESOLVE(mpi.size, scr_symbol("MPI_Comm_size"));
    return mpi.broadcast_text != NULL && mpi.is_true_everywhere != NULL && mpi.barrier != NULL && mpi.test != NULL &&
           mpi.size != NULL && communicator_named("scr_comm_world", &unused) &&
           communicator_named("scr_comm_node", &unused);
}

/* SCR_Init ends with a barrier, so the ranks that have this library are here at about the same time. The request
 * and the status are larger than any MPI's, and stay: MPI may still write to them when the others never come. */
static bool is_everybody_here(void)
{
    static union {
        long long space[8];
        void *pointer;
    } request, status[32];
    const double deadline_s = epoch_s() + SCRTUNE_PATIENCE_S;
    const struct timespec pause = {.tv_nsec = 50000};
    int is_done = 0;
    if (mpi.barrier(world(), &request) != 0) {
        return false;
    }
    while (mpi.test(&request, &is_done, status) == 0 && !is_done && epoch_s() < deadline_s) {
        nanosleep(&pause, NULL);
    }
    return is_done != 0;
}

/* Collective: the number of nodes; 0 when it is not known, or when they have different numbers of ranks. */
static int number_of_nodes(int *nodes)
{
    void (*number_texts)(const char *, communicator, int, int, int *, int *);
    const char *host = scr_text("scr_my_hostname");
    int node_size = 0, id = 0;
    communicator node = 0;
    RESOLVE(number_texts, scr_symbol("rankstr_mpi"));
    *nodes = 0;
    if (!all_true(number_texts != NULL && host != NULL)) {
        return 0;
    }
    number_texts(host, world(), 0, 1, nodes, &id);
    communicator_named("scr_comm_node", &node);
    mpi.size(node, &node_size);
    return all_true(*nodes * node_size == scr_int("scr_ranks_world", 0)) ? *nodes : 0;
}

/* Collective: what can be done with this libscr, agreed upon by all ranks. */
static void agree_on_classes(void)
{
    char why[WHY_LIMIT] = "";
    const bool is_safe = reinit_safe(why);
    if (!is_safe && job.is_root) {
        tell(why);
    }
    job.may_reinit = all_true(is_safe);
    for (size_t i = 0; i < lever_count; i++) {
        if (levers[i].means == BY_REINIT) {
            job.classes[i] = job.may_reinit ? CLASS_REINIT : CLASS_LAUNCH;
        } else if (levers[i].means != BY_NOTHING) {
            job.classes[i] = all_true(live_verified(&levers[i])) ? levers[i].class : CLASS_LAUNCH;
        }
    }
}

static int even_nodes;

static const char *decision_path(void)
{
    const char *path = getenv("SCRTUNE_DECISION_FILE");
    return path != NULL && path[0] != '\0' ? path : NULL;
}

void session_begin(void)
{
    memset(&job, 0, sizeof job);
    job.generation = -1;
    even_nodes = 0;
    job.is_root = scr_int("scr_my_rank_world", -1) == 0;
    for (size_t i = 0; i < lever_count; i++) {
        job.classes[i] = levers[i].class == CLASS_INERT ? CLASS_INERT : CLASS_LAUNCH;
    }
    decision_forget();
    live_begin();
    if (decision_path() != NULL && scr_int("scr_initialized", 0) == 1 && has_mpi()) {
        job.is_engaged = is_everybody_here();
        if (job.is_engaged) {
            even_nodes = number_of_nodes(&job.nodes);
            agree_on_classes();
        } else if (job.is_root) {
            tell("some ranks run without libscrtune.so: settings stay as they are (is it on a file system that all "
                 "nodes see?)");
        }
    }
    if (job.is_root) {
        event_started();
    }
}

void session_end(void)
{
    if (job.is_root) {
        event_ended();
    }
    memset(&job, 0, sizeof job);
    reinit_forget();
}

static void refuse(long generation, const char *why)
{
    if (job.is_root) {
        tell(why);
        event_refused(generation, why);
    }
}

/* Rank 0: a decision that is new and, by itself, good; else NULL. */
static char *new_decision(void)
{
    char why[WHY_LIMIT] = "";
    size_t length = 0;
    const char *path = decision_path();
    if (path == NULL || scr_int("scr_in_output", 0) != 0) {
        return NULL;
    }
    char *text = decision_look(path, &length, why);
    decision found = {.generation = -1};
    char *copy = text != NULL ? malloc(length + 1) : NULL;
    if (copy != NULL) {
        memcpy(copy, text, length + 1);
    }
    if (copy == NULL || decision_read(copy, length, &found, why) != DECISION_GOOD) {
        if (why[0] != '\0') {
            refuse(found.generation, why);
        }
        free(text);
        text = NULL;
    }
    free(copy);
    return text;
}

static void apply_live(const decision *found)
{
    for (size_t i = 0; i < found->count; i++) {
        const lever *lever = found->entries[i].lever;
        const lever_class class = job.classes[lever - levers];
        if (class == CLASS_LIVE || class == CLASS_LIVE_ON_RANK_0) {
            live_apply(lever, found->entries[i].value);
        }
    }
}

/* Collective: a libscr that does not take a value is not initialized again for it. */
static void check_reinit(const decision *found)
{
    if (!all_true(reinit_needless(found))) {
        if (job.is_root) {
            tell("this SCR does not take all values in SCR_Init: such settings wait for the next launch");
        }
        job.may_reinit = false;
        for (size_t i = 0; i < lever_count; i++) {
            job.classes[i] = levers[i].means == BY_REINIT ? CLASS_LAUNCH : job.classes[i];
        }
    }
}

/* Collective, on every rank with the same text: no way out between the votes depends on one rank alone. */
static apply_how apply_text(char *text)
{
    char why[WHY_LIMIT] = "a rank cannot apply the decision";
    decision found;
    bool is_ready = decision_read(text, strlen(text), &found, why) == DECISION_GOOD;
    const bool is_reinit_wanted = is_ready && !reinit_needless(&found);
    if (is_reinit_wanted) {
        is_ready = reinit_safe(why) && reinit_acceptable(&found, even_nodes, why);
    }
    is_ready = is_ready && reinit_prepare(&found);
    if (!all_true(is_ready)) {
        refuse(found.generation, why);
        return HOW_REFUSED;
    }
    const bool is_reinit = !all_true(!is_reinit_wanted);
    if (is_reinit) {
        reinit_run();
    }
    apply_live(&found);
    if (is_reinit) {
        check_reinit(&found);
    }
    job.generation = found.generation;
    return is_reinit ? HOW_REINIT : HOW_LIVE;
}

apply_how session_apply(void)
{
    if (!job.is_engaged) {
        return HOW_NOT;
    }
    const double entered_s = epoch_s();
    char *text = job.is_root ? new_decision() : NULL;
    mpi.broadcast_text(&text, 0, world());
    if (text == NULL) {
        return HOW_NOT;
    }
    const apply_how how = apply_text(text);
    if (job.is_root && how != HOW_REFUSED) {
        event_applied(job.generation, how, epoch_s() - entered_s);
    }
    free(text);
    return how;
}
