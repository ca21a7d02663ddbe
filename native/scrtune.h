/* libscrtune.so: puts the decisions of scrtune's daemon in force inside an application that uses SCR.
 *
 * It is preloaded (LD_PRELOAD) and stands in front of the functions of an unmodified libscr. Nothing here may
 * end, block or slow down the application: whatever is missing or wrong means that SCR is called as if this
 * library were not there. Neither MPI's nor SCR's headers are needed; symbols are looked up by name, and
 * variables are believed only when they have the size that is expected.
 */
#ifndef SCRTUNE_H
#define SCRTUNE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nothing is seen from outside but what says so. */
#define SCRTUNE_API __attribute__((visibility("default")))
#pragma GCC visibility push(hidden)

enum {
    SCR_SUCCESS = 0,
    SCR_FAILURE = 1,
    SCR_FLAG_CHECKPOINT = 1,
    KIND_LIMIT = 4, /* kinds of output: SCR_FLAG_CHECKPOINT, SCR_FLAG_OUTPUT, both, none */
    DECISION_LIMIT = 64 * 1024, /* bytes */
    LEVER_LIMIT = 128,
    WHY_LIMIT = 256,
    NAME_LIMIT = 1024, /* SCR_MAX_FILENAME */
    CPU_LIMIT = 8192, /* the kernel's largest NR_CPUS */
};

/* MPI_Comm is an int in MPICH and a pointer in Open MPI: either is passed as a long. */
typedef long communicator;

/* ---- library.c */

/* The function `name` that would be called without this library, or NULL. */
void *real_function(const char *name);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* dlsym's void pointer as the function that `target`, a function pointer, points to. */
#define RESOLVE(target, address)                          \
    do {                                                  \
        void *resolved_ = (address);                      \
        __builtin_memcpy(&(target), &resolved_, sizeof(resolved_)); \
    } while (0)

/* `real` is the function `name` behind this one; where there is none, return `otherwise`. */
#define REAL(name, otherwise)            \
    __typeof__(&name) real;              \
    RESOLVE(real, real_function(#name)); \
    if (real == NULL) {                  \
        return otherwise;                \
    }

/* The application sees the errno that there was here, when the block ends. */
void restore_errno(const int *before);
#define KEEP_ERRNO __attribute__((cleanup(restore_errno), unused)) const int errno_before = errno

/* SCR's or a component's exported function or variable, or NULL. */
void *scr_symbol(const char *name);

/* SCR's exported variable `name`, or NULL when it is not there with exactly `size` bytes. */
void *scr_variable(const char *name, size_t size);

/* The value of an exported int or char*, or `otherwise`, or NULL; an int is set if it is there. */
int scr_int(const char *name, int otherwise);
void scr_set_int(const char *name, int value);
const char *scr_text(const char *name);

/* The communicator in SCR's exported variable `name`, or false. */
bool communicator_named(const char *name, communicator *found);

/* ---- decision.c */

typedef enum { TYPE_BOOL, TYPE_INT, TYPE_BYTES, TYPE_FLOAT, TYPE_ENUM, TYPE_TEXT, TYPE_PATH, TYPE_CPUS } lever_type;

/* How soon a parameter can change; the words are those of SettingsObserved.mutability. */
typedef enum { CLASS_LIVE, CLASS_LIVE_ON_RANK_0, CLASS_REINIT, CLASS_LAUNCH, CLASS_INERT } lever_class;

/* By what means. */
typedef enum {
    BY_NOTHING,
    BY_INT,
    BY_DOUBLE,
    BY_ASYNC,
    BY_AXL,
    BY_ER,
    BY_CPUS,
    BY_NICE,
    BY_THREADS,
    BY_BEHIND,
    BY_REINIT
} lever_means;

typedef struct {
    const char *name;
    lever_type type;
    long long minimum, maximum; /* of TYPE_INT and TYPE_BYTES */
    const char *choices;        /* of TYPE_ENUM, each between spaces */
    lever_class class;          /* with a library that has all that is needed */
    lever_means means;
    const char *symbol; /* the variable that is written, or that has what is in force */
} lever;

extern const lever levers[];
extern const size_t lever_count;

const lever *lever_named(const char *name);

/* The number that an accepted text of a lever means. */
long long lever_integer(const char *value);
double lever_float(const char *value);

/* The CPUs of a Linux cpu list such as 1,3-5; false when `text` is none. */
typedef struct {
    cpu_set_t words[CPU_LIMIT / CPU_SETSIZE];
} cpus;
bool cpus_of(const char *text, cpus *set);

typedef struct {
    long generation;
    size_t count;
    struct {
        const lever *lever;
        const char *value;
    } entries[LEVER_LIMIT];
} decision;

/* Put what is wrong into `why`; false. */
__attribute__((format(printf, 2, 3))) bool fault(char why[WHY_LIMIT], const char *format, ...);

/* Read `text` of `length` bytes, which is changed and must outlive `found`. False with the fault in `why`. */
bool decision_read(char *text, size_t length, decision *found, char why[WHY_LIMIT]);

/* The value of `name` in a decision, or NULL. */
const char *decision_value(const decision *given, const char *name);

/* The text of the file at `path` when it is another than at the last look; NULL when nothing changed, and when it
 * cannot be read: `why` is not empty then. To be freed. */
char *decision_look(const char *path, char why[WHY_LIMIT]);

/* Let `name` have `value`, which must outlive `given`. */
void decision_put(decision *given, const char *name, const char *value);

/* The next look finds a file again even if it has not changed. */
void decision_forget(void);

/* ---- live.c */

/* Whether `given` is there in this libscr; a component's own configuration is written, read back and restored. */
bool live_verified(const lever *given);

/* SCR was initialized. */
void live_begin(void);

void live_apply(const lever *given, const char *value);

/* ---- reinit.c */

/* Remember what the application gives to SCR_Config, and forget it all. */
void configs_record(const char *config);
void configs_forget(void);

/* Whether SCR_Finalize and SCR_Init in the middle of the job are safe with what is set; `why` if not. */
bool reinit_safe(char why[WHY_LIMIT]);

/* Whether the values of `given` would be taken by SCR_Init, which aborts the job for some. `nodes` is 0 when
 * it is not known, or when the nodes have different numbers of ranks. */
bool reinit_acceptable(const decision *given, int nodes, char why[WHY_LIMIT]);

/* Whether all values of `given` that need a re-init are in force. */
bool reinit_needless(const decision *given);

/* Get the memory that reinit_run needs. */
bool reinit_prepare(const decision *given);

/* SCR_Finalize and SCR_Init with the values of reinit_prepare. Collective. */
void reinit_run(void);

/* In SCR_Finalize the job does not end, whatever SCR says of it; in SCR_Init it does not begin, and cached datasets
 * stay as they are. */
typedef enum { REINIT_NONE, REINIT_FINALIZING, REINIT_INITIALIZING } reinit_stage;
extern reinit_stage reinit_now;

/* SCR's halt file goes through this library, so that it can be held back. */
extern bool has_seen_halt;

/* ---- sharing.c */

/* Of one output. */
typedef enum { FILES_UNKNOWN, FILES_APART, FILES_MEET, FILES_NOT_LOOKED_AT } files_seen;

/* SCR_Complete_output is about to begin. */
void sharing_expect(void);

/* What this rank saw of the output that SCR has just completed. */
files_seen sharing_seen(void);

/* ---- session.c */

typedef struct {
    bool is_root;     /* rank 0, the one that looks and reports */
    bool is_willing;  /* this rank would take part in the collective point */
    bool is_engaged;  /* every rank takes part in it */
    bool can_compare; /* every rank has SCR's reduction for least_of_all */
    bool may_reinit;  /* every rank can initialize SCR again */
    int nodes;        /* 0: unknown */
    int kind;             /* of the output that is open */
    unsigned long looks;  /* outputs that were, or could have been, looked at by sharing.c */
    bool is_bypass_own;   /* the application's own SCR_CACHE_BYPASS is 1 */
    bool is_cached_by_us; /* and a decision has made it 0 */
    bool is_cache_barred; /* and no decision may, any more */
    bool do_files_meet;   /* an output was seen whose files could not lie in the cache */
    unsigned kinds_apart;   /* bit n: an output of kind n was seen whose files could */
    long generation;  /* of the decision in force, -1 before the first */
    lever_class classes[LEVER_LIMIT]; /* of levers[] with this libscr, the same on every rank */
} session;

extern session job;

/* After SCR_Init of the application, which took `init_s` without what no re-init does. */
void session_begin(double init_s);
void session_end(void);

/* The nodes as SCR_Init has counted them. */
extern int nodes_seen;

/* Whether an output of the kind that is open was seen whose files could lie in the cache. */
bool is_kind_apart(void);

/* `here` ranks are willing, as every one of them is told at the same time. Collective. */
void session_counted(unsigned long here);

/* The one collective point, before an output of `kind`. */
void session_apply(int kind);

/* After an output. Collective. Whether its files could lie in the cache, as all ranks see it. */
files_seen session_completed(bool is_valid);

/* Whether it `is_true` on every rank. Collective, of engaged ranks. */
bool all_true(bool is_true);

/* The least `number` of all ranks, none of them negative. Collective, of ranks that can compare. */
int least_of_all(int number);

/* Say `text` once on rank 0's standard error. */
void tell(const char *text);

double epoch_s(void);
double monotonic_s(void);

/* For how long the calling thread has run. */
double thread_s(void);

/* ---- core_time.c */

/* Seconds in which a thread ran, and in which it was ready to run and waited for a core; both 0: not known. */
typedef struct {
    double cpu_s, run_delay_s;
} core_time;

/* What the calling thread took so far, zeros where that cannot be read. False where Linux does not count it, and of a
 * thread that has just started. */
bool core_time_now(core_time *now);

/* Measure rank 0's calling thread from now on; what it took since, once. */
void core_time_begin(void);
core_time core_time_end(void);

/* ---- flush.c */

/* The application has initialized SCR: no flush is under way. */
void flush_forget(void);

/* The CPUs of the threads of AXL's that are started from now on, NULL for those of the application; how many a rank
 * has, 0 for AXL's own number. */
void flush_use_cpus(const cpus *wanted);
void flush_use_nice(int wanted);
void flush_use_threads(unsigned int count);

/* Whether the end of the flush of `dataset`, which is under way, will be reported. */
bool flush_is_timed(int dataset);

/* ---- behind.c */

/* Whether older checkpoints past the cache leave the page cache; the application has initialized SCR: there are none. */
void behind_use(bool wanted);
void behind_forget(void);

/* An output begins, and is complete; a flush begins to write `target`. */
void behind_starts(void);
void behind_completed(void);
void behind_flushes(const char *target);

/* ---- observe.c; the embedded engine, which has no calls of SCR's, calls these four (client/capture/gate.py) */

/* After SCR_Init: pause DFTracer, where scrtune has started it. */
SCRTUNE_API void scrtune_observe_begin(const char *prefix);

/* The application begins to write an output; it has written it: returns how many calls DFTracer has written down, and
 * for how many seconds more they took. */
SCRTUNE_API void scrtune_observe_open(void);
SCRTUNE_API size_t scrtune_observe_close(double *cost_s);

/* Write what DFTracer has gathered to where the forwarder reads it. */
SCRTUNE_API void scrtune_observe_deliver(void);

/* ---- events.c: only rank 0 writes */

/* A field of an event, by one of the constructors below; it is left out when it has no name. */
typedef struct {
    const char *name;
    enum { AS_SECONDS, AS_NUMBER, AS_FLAG, AS_TEXT, AS_JSON } form;
    double seconds;
    long long number;
    const char *text;
} event_field;

#define SECONDS(name_, value) {.name = (name_), .form = AS_SECONDS, .seconds = (value)}
#define NUMBER(name_, value) {.name = (name_), .form = AS_NUMBER, .number = (long long)(value)}
#define FLAG(name_, value) {.name = (name_), .form = AS_FLAG, .number = (value)}
#define TEXT(name_, value) {.name = (name_), .form = AS_TEXT, .text = (value)}
#define JSON(name_, value) {.name = (name_), .form = AS_JSON, .text = (value)}
#define ONLY(condition, name_) ((condition) ? (name_) : NULL)

void event_write(const char *type, size_t count, const event_field fields[]);
#define EVENT(type, ...)                                                               \
    do {                                                                               \
        const event_field fields_[] = {__VA_ARGS__};                                   \
        event_write((type), COUNT(fields_), fields_);                                  \
    } while (0)

/* The first event of a run: what SCR was initialized with. */
void event_started(double init_s);

#pragma GCC visibility pop

#endif
