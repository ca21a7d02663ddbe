/* The functions that the application finds here before SCR's own, and SCR before AXL's. Fortran's bindings call
 * these through the C functions, and so need none of their own. */
#include "scrtune.h"

#include <errno.h>
#include <stdio.h>
#include <sys/sysinfo.h>

static output current;
static int depth; /* an old libscr makes one of these functions call another */

SCRTUNE_API int SCR_Init(void);
SCRTUNE_API int SCR_Finalize(void);
SCRTUNE_API const char *SCR_Config(const char *config);
SCRTUNE_API int SCR_Need_checkpoint(int *flag);
SCRTUNE_API int SCR_Start_output(const char *name, int flags);
SCRTUNE_API int SCR_Complete_output(int valid);
SCRTUNE_API int SCR_Start_checkpoint(void);
SCRTUNE_API int SCR_Complete_checkpoint(int valid);
SCRTUNE_API int SCR_Start_restart(char *name);
SCRTUNE_API int SCR_Complete_restart(int valid);
SCRTUNE_API int scr_halt_sync_and_decrement(const void *path, void *hash, int decrement);
SCRTUNE_API int scr_log_halt(const char *reason);
SCRTUNE_API int scr_reddesc_recover(void *index, int id, const char *directory);
SCRTUNE_API int AXL_Dispatch(int id);
SCRTUNE_API unsigned int axl_get_nprocs(void);
SCRTUNE_API void rankstr_mpi(const char *text, communicator comm, int tag0, int tag1, int *groups, int *id);
SCRTUNE_API int DTCMP_Rankv_strings(int count, const char *names[], uint64_t *groups, uint64_t id[],
                                    uint64_t ranks[], uint64_t rank[], unsigned int flags, communicator comm);

int SCR_Init(void)
{
    int (*real)(void);
    RESOLVE(real, real_function("SCR_Init"));
    if (real == NULL) {
        return SCR_FAILURE;
    }
    const int result = real();
    const int error = errno;
    if (result == SCR_SUCCESS) {
        session_begin();
    }
    errno = error;
    return result;
}

int SCR_Finalize(void)
{
    int (*real)(void);
    RESOLVE(real, real_function("SCR_Finalize"));
    if (real == NULL) {
        return SCR_FAILURE;
    }
    const int result = real();
    session_end();
    return result;
}

const char *SCR_Config(const char *config)
{
    const char *(*real)(const char *);
    RESOLVE(real, real_function("SCR_Config"));
    if (real == NULL) {
        return NULL;
    }
    const char *result = real(config);
    const int error = errno;
    configs_record(config);
    errno = error;
    return result;
}

/* ---- outputs, by the present functions and the old ones */

static void before_start(int kind)
{
    const int error = errno;
    current.kind = kind & (KIND_LIMIT - 1);
    current.entered_s = epoch_s();
    session_apply(current.kind);
    current.apply_s = epoch_s() - current.entered_s;
    errno = error;
}

static void after_start(const char *name)
{
    const int error = errno;
    current.opened_s = epoch_s();
    if (name != NULL && name[0] != '\0') {
        snprintf(current.name, sizeof current.name, "%s", name);
    } else {
        snprintf(current.name, sizeof current.name, "scr.dataset.%d", scr_int("scr_dataset_id", 0));
    }
    errno = error;
}

int SCR_Start_output(const char *name, int flags)
{
    int (*real)(const char *, int);
    RESOLVE(real, real_function("SCR_Start_output"));
    if (real == NULL) {
        return SCR_FAILURE;
    }
    if (depth == 0) {
        before_start(flags);
    }
    depth++;
    const int result = real(name, flags);
    if (--depth == 0) {
        after_start(name);
    }
    return result;
}

/* Only told: what lies between two questions is a step of the application's main loop (client/implicit_steps.py). */
int SCR_Need_checkpoint(int *flag)
{
    int (*real)(int *);
    RESOLVE(real, real_function("SCR_Need_checkpoint"));
    if (real == NULL) {
        return SCR_FAILURE;
    }
    const double began_s = epoch_s();
    const int result = real(flag);
    if (depth == 0 && job.is_root) {
        const int error = errno;
        event_asked(began_s, epoch_s());
        errno = error;
    }
    return result;
}

int SCR_Start_checkpoint(void)
{
    int (*real)(void);
    RESOLVE(real, real_function("SCR_Start_checkpoint"));
    if (real == NULL) {
        return SCR_FAILURE;
    }
    if (depth == 0) {
        before_start(SCR_FLAG_CHECKPOINT);
    }
    depth++;
    const int result = real();
    if (--depth == 0) {
        after_start(NULL);
    }
    return result;
}

static int complete(const char *function, int valid)
{
    int (*real)(int);
    RESOLVE(real, real_function(function));
    if (real == NULL) {
        return SCR_FAILURE;
    }
    const double closing_s = epoch_s();
    if (depth == 0) {
        sharing_expect();
    }
    depth++;
    const int result = real(valid);
    if (--depth == 0) {
        const int error = errno;
        const files_seen files = session_completed(result == SCR_SUCCESS);
        current.closing_s = closing_s;
        if (job.is_root) {
            event_output(&current, scr_int("scr_dataset_id", 0), result == SCR_SUCCESS, files);
        }
        errno = error;
    }
    return result;
}

int SCR_Complete_output(int valid)
{
    return complete("SCR_Complete_output", valid);
}

int SCR_Complete_checkpoint(int valid)
{
    return complete("SCR_Complete_checkpoint", valid);
}

/* ---- restarts, which are only told */

static char restart_name[NAME_LIMIT];
static double restart_entered_s;

int SCR_Start_restart(char *name)
{
    int (*real)(char *);
    RESOLVE(real, real_function("SCR_Start_restart"));
    if (real == NULL) {
        return SCR_FAILURE;
    }
    restart_entered_s = epoch_s();
    const int result = real(name);
    const int error = errno;
    snprintf(restart_name, sizeof restart_name, "%s", result == SCR_SUCCESS && name != NULL ? name : "");
    errno = error;
    return result;
}

int SCR_Complete_restart(int valid)
{
    int (*real)(int);
    RESOLVE(real, real_function("SCR_Complete_restart"));
    if (real == NULL) {
        return SCR_FAILURE;
    }
    const int result = real(valid);
    if (job.is_root) {
        event_restart(restart_name, result == SCR_SUCCESS, restart_entered_s);
    }
    return result;
}

/* ---- what SCR itself calls */

/* SCR_Finalize would tell scr_run not to start the job again. */
int scr_halt_sync_and_decrement(const void *path, void *hash, int decrement)
{
    int (*real)(const void *, void *, int);
    reinit_saw_halt();
    if (reinit_is_finalizing()) {
        return SCR_SUCCESS;
    }
    RESOLVE(real, real_function("scr_halt_sync_and_decrement"));
    return real != NULL ? real(path, hash, decrement) : SCR_FAILURE;
}

int scr_log_halt(const char *reason)
{
    int (*real)(const char *);
    if (reinit_is_finalizing()) {
        return SCR_SUCCESS;
    }
    RESOLVE(real, real_function("scr_log_halt"));
    return real != NULL ? real(reason) : SCR_FAILURE;
}

/* SCR_Init would take each cached dataset's redundancy apart and put it together again: who is killed meanwhile loses
 * the dataset. In the middle of a job nothing has to be recovered. */
int scr_reddesc_recover(void *index, int id, const char *directory)
{
    int (*real)(void *, int, const char *);
    if (reinit_is_initializing()) {
        return SCR_SUCCESS;
    }
    RESOLVE(real, real_function("scr_reddesc_recover"));
    return real != NULL ? real(index, id, directory) : SCR_FAILURE;
}

/* AXL's threads inherit the mask of the thread that starts them, which is here: nothing else of SCR, and no MPI,
 * runs on the CPUs of the flush threads. */
int AXL_Dispatch(int id)
{
    int (*real)(int);
    RESOLVE(real, real_function("AXL_Dispatch"));
    if (real == NULL) {
        return -1;
    }
    flush_mask_enter();
    const int result = real(id);
    flush_mask_leave();
    return result;
}

unsigned int axl_get_nprocs(void)
{
    unsigned int (*real)(void);
    if (flush_threads() > 0) {
        return flush_threads();
    }
    RESOLVE(real, real_function("axl_get_nprocs"));
    return real != NULL ? real() : (unsigned int)get_nprocs();
}

void rankstr_mpi(const char *text, communicator comm, int tag0, int tag1, int *groups, int *id)
{
    void (*real)(const char *, communicator, int, int, int *, int *);
    RESOLVE(real, real_function("rankstr_mpi"));
    if (real != NULL) {
        const char *host = scr_text("scr_my_hostname");
        real(text, comm, tag0, tag1, groups, id);
        if (text != NULL && text == host && groups != NULL) {
            session_saw_nodes(*groups);
        }
    }
}

int DTCMP_Rankv_strings(int count, const char *names[], uint64_t *groups, uint64_t id[], uint64_t ranks[],
                        uint64_t rank[], unsigned int flags, communicator comm)
{
    rank_strings real;
    RESOLVE(real, real_function("DTCMP_Rankv_strings"));
    return real != NULL ? sharing_rank(real, count, names, groups, id, ranks, rank, flags, comm) : 1;
}
