/* The functions that the application finds here before SCR's own, and SCR before its components'. Fortran's bindings
 * call these through the C functions, and so need none of their own. Python finds them by loading this library, with
 * its names open to all, before libscr. */
#include "scrtune.h"

#include <errno.h>
#include <stdio.h>
#include <sys/sysinfo.h>

static output current;
static int depth; /* an old libscr makes one of these functions call another */

/* SCR_Init, from when the last rank has come: before, it waits for that. */
static struct {
    double began_s, recovered_s; /* monotonic; seconds that it put cached datasets together */
    bool has_all_ranks;
} init;

/* `real` is the function `name` behind this one; where there is none, return `otherwise`. */
#define REAL(name, otherwise)            \
    __typeof__(&name) real;              \
    RESOLVE(real, real_function(#name)); \
    if (real == NULL) {                  \
        return otherwise;                \
    }

/* The application sees the errno of SCR's function. */
static void restore_errno(const int *before)
{
    errno = *before;
}
#define KEEP_ERRNO __attribute__((cleanup(restore_errno), unused)) const int errno_before = errno

SCRTUNE_API int SCR_Init(void)
{
    REAL(SCR_Init, SCR_FAILURE);
    init.has_all_ranks = false;
    init.recovered_s = 0;
    init.began_s = monotonic_s();
    const int result = real();
    if (result == SCR_SUCCESS) {
        KEEP_ERRNO;
        session_begin(monotonic_s() - init.began_s - init.recovered_s);
    }
    return result;
}

SCRTUNE_API int SCR_Finalize(void)
{
    REAL(SCR_Finalize, SCR_FAILURE);
    const int result = real();
    session_end();
    return result;
}

SCRTUNE_API const char *SCR_Config(const char *config)
{
    REAL(SCR_Config, NULL);
    const char *result = real(config);
    KEEP_ERRNO;
    configs_record(config);
    return result;
}

/* Only reported: what lies between two questions is a step of the application's main loop (client/implicit_steps.py). */
SCRTUNE_API int SCR_Need_checkpoint(int *flag)
{
    REAL(SCR_Need_checkpoint, SCR_FAILURE);
    const double began_s = epoch_s();
    const int result = real(flag);
    if (depth == 0) {
        event_asked(began_s, epoch_s(), result == SCR_SUCCESS && flag != NULL && *flag != 0);
    }
    return result;
}

/* For an application that reports its steps: then what lies between the calls is none. */
SCRTUNE_API void scrtune_step(long long step, double start_s, double end_s)
{
    event_step(step, start_s, end_s);
}

/* ---- outputs, by the present functions and the old ones */

static void before_start(int kind)
{
    if (depth++ == 0) {
        KEEP_ERRNO;
        current.kind = kind & (KIND_LIMIT - 1);
        current.entered_s = epoch_s();
        session_apply(current.kind);
        current.apply_s = epoch_s() - current.entered_s;
    }
}

static void after_start(const char *name)
{
    if (--depth == 0) {
        KEEP_ERRNO;
        current.opened_s = epoch_s();
        if (name != NULL && name[0] != '\0') {
            snprintf(current.name, sizeof current.name, "%s", name);
        } else {
            snprintf(current.name, sizeof current.name, "scr.dataset.%d", scr_int("scr_dataset_id", 0));
        }
        scrtune_observe_open();
    }
}

SCRTUNE_API int SCR_Start_output(const char *name, int flags)
{
    REAL(SCR_Start_output, SCR_FAILURE);
    before_start(flags);
    const int result = real(name, flags);
    after_start(name);
    return result;
}

SCRTUNE_API int SCR_Start_checkpoint(void)
{
    REAL(SCR_Start_checkpoint, SCR_FAILURE);
    before_start(SCR_FLAG_CHECKPOINT);
    const int result = real();
    after_start(NULL);
    return result;
}

static int complete(int (*real)(int), int valid)
{
    const double closing_s = epoch_s();
    if (depth++ == 0) {
        current.observed = scrtune_observe_close(&current.observe_s);
        sharing_expect();
    }
    const int result = real(valid);
    if (--depth == 0) {
        KEEP_ERRNO;
        const files_seen files = session_completed(result == SCR_SUCCESS);
        current.closing_s = closing_s;
        event_output(&current, scr_int("scr_dataset_id", 0), result == SCR_SUCCESS, files);
        scrtune_observe_deliver();
    }
    return result;
}

SCRTUNE_API int SCR_Complete_output(int valid)
{
    REAL(SCR_Complete_output, SCR_FAILURE);
    return complete(real, valid);
}

SCRTUNE_API int SCR_Complete_checkpoint(int valid)
{
    REAL(SCR_Complete_checkpoint, SCR_FAILURE);
    return complete(real, valid);
}

/* ---- restarts, which are only reported */

static char restart_name[NAME_LIMIT];
static double restart_entered_s;

SCRTUNE_API int SCR_Start_restart(char *name)
{
    REAL(SCR_Start_restart, SCR_FAILURE);
    restart_entered_s = epoch_s();
    const int result = real(name);
    KEEP_ERRNO;
    snprintf(restart_name, sizeof restart_name, "%s", result == SCR_SUCCESS && name != NULL ? name : "");
    return result;
}

SCRTUNE_API int SCR_Complete_restart(int valid)
{
    REAL(SCR_Complete_restart, SCR_FAILURE);
    const int result = real(valid);
    event_restart(restart_name, result == SCR_SUCCESS, restart_entered_s);
    return result;
}

/* ---- what SCR itself calls */

/* SCR_Finalize would tell scr_run not to start the job again. */
SCRTUNE_API int scr_halt_sync_and_decrement(const void *path, void *hash, int decrement)
{
    has_seen_halt = true;
    if (reinit_now == REINIT_FINALIZING) {
        return SCR_SUCCESS;
    }
    REAL(scr_halt_sync_and_decrement, SCR_FAILURE);
    return real(path, hash, decrement);
}

SCRTUNE_API int scr_log_halt(const char *reason)
{
    if (reinit_now == REINIT_FINALIZING) {
        return SCR_SUCCESS;
    }
    REAL(scr_log_halt, SCR_FAILURE);
    return real(reason);
}

/* SCR_Init would take each cached dataset's redundancy apart and put it together again: who is killed meanwhile loses
 * the dataset. In the middle of a job nothing has to be recovered. */
SCRTUNE_API int scr_reddesc_recover(void *index, int id, const char *directory)
{
    if (reinit_now == REINIT_INITIALIZING) {
        return SCR_SUCCESS;
    }
    REAL(scr_reddesc_recover, SCR_FAILURE);
    const double began_s = monotonic_s();
    const int result = real(index, id, directory);
    init.recovered_s += monotonic_s() - began_s;
    return result;
}

SCRTUNE_API int scr_flush_async_start(void *index, int dataset)
{
    REAL(scr_flush_async_start, SCR_FAILURE);
    flush_start(dataset);
    const int result = real(index, dataset);
    flush_started();
    return result;
}

SCRTUNE_API int scr_flush_async_complete(void *index, int dataset)
{
    REAL(scr_flush_async_complete, SCR_FAILURE);
    flush_complete(dataset);
    return real(index, dataset);
}

SCRTUNE_API int AXL_Add(int id, const char *source, const char *target)
{
    REAL(AXL_Add, -1);
    flush_add();
    return real(id, source, target);
}

/* AXL's own; looked up once, since a thread of AXL's may be cancelled at any instruction. */
static file_copy real_copy(void)
{
    static _Atomic(file_copy) known;
    file_copy real = known;
    if (real == NULL) {
        RESOLVE(real, real_function("axl_file_copy"));
        known = real;
    }
    return real;
}

SCRTUNE_API int axl_file_copy(const char *source, const char *target, unsigned long buffer, long more)
{
    const file_copy real = real_copy();
    return real != NULL ? flush_copy(real, source, target, buffer, more) : -1;
}

/* AXL's threads inherit the mask of the thread that starts them, which is here: nothing else of SCR, and no MPI,
 * runs on the CPUs of the flush threads. */
SCRTUNE_API int AXL_Dispatch(int id)
{
    REAL(AXL_Dispatch, -1);
    real_copy();
    flush_dispatch();
    flush_mask_enter();
    const int result = real(id);
    flush_mask_leave();
    return result;
}

SCRTUNE_API unsigned int axl_get_nprocs(void)
{
    if (flush_threads() > 0) {
        return flush_threads();
    }
    REAL(axl_get_nprocs, (unsigned int)get_nprocs());
    return real();
}

SCRTUNE_API void rankstr_mpi(const char *text, communicator comm, int tag0, int tag1, int *groups, int *id)
{
    REAL(rankstr_mpi, );
    if (!init.has_all_ranks) { /* SCR has just made a communicator of them */
        init.has_all_ranks = true;
        init.began_s = monotonic_s();
    }
    const char *host = scr_text("scr_my_hostname");
    real(text, comm, tag0, tag1, groups, id);
    if (text != NULL && text == host && groups != NULL) {
        nodes_seen = *groups;
    }
}

SCRTUNE_API int DTCMP_Rankv_strings(int count, const char *names[], uint64_t *groups, uint64_t id[],
                                    uint64_t ranks[], uint64_t rank[], unsigned int flags, communicator comm)
{
    REAL(DTCMP_Rankv_strings, 1);
    return sharing_rank(real, count, names, groups, id, ranks, rank, flags, comm);
}
