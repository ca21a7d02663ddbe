/* The functions that the application finds here before SCR's own; some that SCR calls are here too, others where they
 * matter (flush.c, sharing.c). Fortran's bindings call these through the C functions, and so need none of their own.
 * Python finds them by loading this library, with its names open to all, before libscr. */
#include "scrtune.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

/* The output that is open, or was last. */
static struct {
    char name[NAME_LIMIT];
    int kind; /* SCR's flags */
    double entered_s, apply_s, opened_s;
    core_time before; /* since the output before */
} current;
static int depth; /* an old libscr makes one of these functions call another */

/* SCR_Init, from when the last rank has come: before, it waits for that. */
static struct {
    double began_s, recovered_s; /* monotonic; seconds that it put cached datasets together */
    bool has_all_ranks;
} init;

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

/* Only reported: what lies between two questions is a step of the main loop (client/implicit_steps.py). */
SCRTUNE_API int SCR_Need_checkpoint(int *flag)
{
    REAL(SCR_Need_checkpoint, SCR_FAILURE);
    const double began_s = epoch_s();
    const int result = real(flag);
    if (depth == 0) {
        EVENT("asked", SECONDS("began_s", began_s), SECONDS("ended_s", epoch_s()),
              FLAG("due", result == SCR_SUCCESS && flag != NULL && *flag != 0));
    }
    return result;
}

/* For an application that reports its steps: then what lies between the calls is none. */
SCRTUNE_API void scrtune_step(long long step, double start_s, double end_s)
{
    EVENT("step_completed", NUMBER("step", step), SECONDS("start_s", start_s), SECONDS("end_s", end_s),
          TEXT("writer", "rank0"));
}

/* ---- outputs, by the present functions and the old ones */

static void before_start(int kind)
{
    if (depth++ == 0) {
        KEEP_ERRNO;
        current.kind = kind & (KIND_LIMIT - 1);
        current.before = core_time_end();
        current.entered_s = epoch_s();
        session_apply(current.kind);
        current.apply_s = epoch_s() - current.entered_s;
        behind_starts(); /* what it drops are pages for this output: the sooner, the more */
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
    size_t observed = 0; /* calls that DFTracer has written down */
    double observe_s = 0;
    if (depth++ == 0) {
        observed = scrtune_observe_close(&observe_s);
        sharing_expect();
    }
    const int result = real(valid);
    if (--depth == 0) {
        KEEP_ERRNO;
        const files_seen files = session_completed(result == SCR_SUCCESS);
        const int dataset = scr_int("scr_dataset_id", 0);
        EVENT("output",
              NUMBER("dataset", dataset),
              TEXT("name", current.name),
              FLAG("checkpoint", (current.kind & SCR_FLAG_CHECKPOINT) != 0),
              FLAG("valid", result == SCR_SUCCESS),
              FLAG(ONLY(files != FILES_UNKNOWN, "shared"), files == FILES_MEET),
              NUMBER("generation", job.generation < 0 ? 0 : job.generation),
              SECONDS("entered_s", current.entered_s),
              SECONDS("apply_s", current.apply_s),
              SECONDS("opened_s", current.opened_s),
              SECONDS("closing_s", closing_s),
              SECONDS("closed_s", epoch_s()),
              NUMBER(ONLY(observed > 0, "observed"), observed),
              SECONDS(ONLY(observed > 0, "observe_s"), observe_s),
              SECONDS(ONLY(current.before.cpu_s > 0, "cpu_s"), current.before.cpu_s),
              SECONDS(ONLY(current.before.cpu_s > 0, "run_delay_s"), current.before.run_delay_s),
              FLAG(ONLY(flush_is_timed(dataset), "flush_timed"), true));
        scrtune_observe_deliver();
        behind_completed();
        core_time_begin();
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
    EVENT("restart", TEXT("name", restart_name), FLAG("valid", result == SCR_SUCCESS),
          SECONDS("entered_s", restart_entered_s), SECONDS("closed_s", epoch_s()));
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

/* SCR (3.0, 3.1) writes its log to syslog, too, where SCR_LOG_SYSLOG_ENABLE=0 says that it shall not: scr_log.c goes by
 * a flag of its own, which nothing clears. Rank 0 does so ten times a checkpoint, while the other ranks wait. */
static bool is_unwanted(const void *caller)
{
    KEEP_ERRNO; /* a message may have it, as %m */
    Dl_info info;
    return dladdr(caller, &info) != 0 && info.dli_sname != NULL && strncmp(info.dli_sname, "scr_log_", 8) == 0 &&
           scr_int("scr_log_syslog_enable", 1) == 0;
}

static void log_for(const void *caller, int priority, const char *format, va_list arguments)
{
    if (!is_unwanted(caller)) {
        vsyslog(priority, format, arguments);
    }
}

#undef syslog /* a macro where the compiler checks formats */
SCRTUNE_API void syslog(int priority, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_for(__builtin_return_address(0), priority, format, arguments);
    va_end(arguments);
}

SCRTUNE_API void __syslog_chk(int priority, int flag, const char *format, ...);
SCRTUNE_API void __syslog_chk(int priority, int flag, const char *format, ...)
{
    (void)flag;
    va_list arguments;
    va_start(arguments, format);
    log_for(__builtin_return_address(0), priority, format, arguments);
    va_end(arguments);
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
