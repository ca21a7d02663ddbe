/* Whether the files of an output have places of their own in SCR's cache, and who has this library.
 *
 * SCR ends the job when ranks of several nodes register one file of an output that goes through the cache
 * (scr_assign_ownership in scr.c), and files of one node that have the same base name overwrite each other there.
 * While an application bypasses the cache, all that is fine. So nobody is moved to the cache before their outputs
 * have been looked at.
 *
 * In each SCR_Complete_output SCR gives the names of the files of all ranks to DTCMP_Rankv_strings, which it calls
 * through this library. With the first output each rank adds a name that no file has: how often DTCMP counts it
 * says, on every rank alike and without any wait, how many ranks have this library.
 */
#include "scrtune.h"

#include <stdlib.h>
#include <string.h>

/* Libraries that do not do the same in a re-init have different names. */
static const char census[] = "\377scrtune 2";
enum { DTCMP_FAILURE = 1 };

typedef int (*rank_strings)(int, const char *[], uint64_t *, uint64_t[], uint64_t[], uint64_t[], unsigned int,
                            communicator);

static bool is_expected; /* the next call is the one about an output's files */
static files_seen seen;

/* What one rank ranks: its names, and for each its group, how many the group has, and its number in it. */
typedef struct {
    int count;
    const char **names;
    uint64_t groups, *id, *ranks, *rank;
    bool is_whole;
} ranking;

static ranking ranking_of(int count)
{
    const size_t size = (size_t)count;
    ranking made = {.names = calloc(size + 1, sizeof *made.names), .id = calloc(size + 1, 3 * sizeof *made.id)};
    made.is_whole = made.names != NULL && made.id != NULL;
    if (made.is_whole) {
        made.ranks = made.id + size + 1;
        made.rank = made.ranks + size + 1;
    }
    return made;
}

static void ranking_free(ranking *made)
{
    free(made->names);
    free(made->id);
}

void sharing_expect(void)
{
    is_expected = job.is_willing;
    seen = FILES_UNKNOWN;
}

files_seen sharing_seen(void)
{
    is_expected = false;
    return seen;
}

/* As `real`, with one name more; session.c hears how often that was counted. */
static int rank_with_census(rank_strings real, int count, const char *names[], uint64_t *groups, uint64_t id[],
                            uint64_t ranks[], uint64_t rank[], unsigned int flags, communicator world)
{
    ranking with = ranking_of(count + 1);
    unsigned long here = 0;
    int result;
    if (with.is_whole) {
        const size_t size = (size_t)count * sizeof *id;
        memcpy(with.names, names, (size_t)count * sizeof *names);
        with.names[count] = census;
        result = real(count + 1, with.names, groups, with.id, with.ranks, with.rank, flags, world);
        *groups -= 1;
        memcpy(id, with.id, size);
        memcpy(ranks, with.ranks, size);
        memcpy(rank, with.rank, size);
        here = (unsigned long)with.ranks[count];
    } else {
        result = real(count, names, groups, id, ranks, rank, flags, world);
    }
    ranking_free(&with);
    session_counted(here);
    return result;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Collective: whether two files of this node have the same base name. */
static files_seen base_names(rank_strings real, int count, const char *names[], const uint64_t rank[])
{
    communicator node = 0;
    ranking bases = ranking_of(count);
    bool do_meet = false;
    for (int i = 0; bases.is_whole && i < count; i++) {
        if (rank[i] == 0) { /* a file that several ranks have is one file */
            bases.names[bases.count++] = base_name(names[i]);
        }
    }
    communicator_named("scr_comm_node", &node);
    real(bases.count, bases.names, &bases.groups, bases.id, bases.ranks, bases.rank, 0, node);
    for (int i = 0; i < bases.count; i++) {
        do_meet |= bases.ranks[i] > 1;
    }
    const files_seen result = !bases.is_whole ? FILES_UNKNOWN : do_meet ? FILES_MEET : FILES_APART;
    ranking_free(&bases);
    return result;
}

/* Collective. In the cache each output is looked at; past it each of a new kind, and ever fewer of the others. */
static bool is_look_due(void)
{
    const unsigned long number = ++job.looks;
    return job.is_cached_by_us || (number & (number - 1)) == 0 || !all_true(is_kind_apart());
}

SCRTUNE_API int DTCMP_Rankv_strings(int count, const char *names[], uint64_t *groups, uint64_t id[],
                                    uint64_t ranks[], uint64_t rank[], unsigned int flags, communicator comm)
{
    REAL(DTCMP_Rankv_strings, DTCMP_FAILURE);
    if (!is_expected) {
        return real(count, names, groups, id, ranks, rank, flags, comm);
    }
    is_expected = false;
    const int result = job.is_engaged
                           ? real(count, names, groups, id, ranks, rank, flags, comm)
                           : rank_with_census(real, count, names, groups, id, ranks, rank, flags, comm);
    if (!job.is_engaged || !job.is_bypass_own) {
        return result;
    }
    if (!is_look_due()) {
        seen = FILES_NOT_LOOKED_AT;
        return result;
    }
    seen = base_names(real, count, names, rank);
    for (int i = 0; i < count && job.nodes != 1; i++) {
        seen = ranks[i] > 1 ? FILES_MEET : seen;
    }
    if (*groups == 0) {
        seen = FILES_UNKNOWN;
    }
    if (!job.is_cached_by_us || all_true(seen != FILES_MEET)) {
        return result;
    }
    /* It is too late to bypass the cache. An output that fails is better than an end of the job. */
    for (int i = 0; i < count; i++) {
        ranks[i] = 1;
        rank[i] = 0;
    }
    return DTCMP_FAILURE;
}
