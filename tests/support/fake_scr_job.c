/* A job of one process a rank over fake_scr.c: fake_scr_job OUTPUTS FILES [FILES ...], the files of each rank. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern int scr_my_rank_world, scr_ranks_world;
extern const char *files[64];
extern struct {
    pthread_barrier_t met;
    int is_false, numbers[64];
} *meeting;
int SCR_Init(void), SCR_Start_output(const char *, int), SCR_Complete_output(int), SCR_Finalize(void);

/* What an application may do while its files are flushed. */
static int fork_and_exec(void)
{
    int status = 1;
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    return waitpid(child, &status, 0) == child ? status : 1;
}

static int run(int outputs)
{
    int failed = SCR_Init();
    for (int i = 0; i < outputs; i++) {
        failed |= SCR_Start_output("output", 1) | SCR_Complete_output(1) | fork_and_exec();
    }
    return failed | SCR_Finalize();
}

int main(int argc, char **argv)
{
    pthread_barrierattr_t shared;
    int failed = 0;
    scr_ranks_world = argc - 2;
    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&meeting->met, &shared, (unsigned)scr_ranks_world);
    for (int rank = 0; rank < scr_ranks_world; rank++) {
        files[rank] = argv[rank + 2];
    }
    for (int rank = 0; rank < scr_ranks_world; rank++) {
        if (fork() == 0) {
            scr_my_rank_world = rank;
            exit(run(atoi(argv[1])));
        }
    }
    for (int status; wait(&status) > 0;) {
        failed |= status;
    }
    return failed != 0;
}
