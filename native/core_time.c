/* How long rank 0's thread ran and waited for a core between two outputs, as Linux counts (schedstat). The daemon knows
 * by it what a flush beside the application takes, even where no step is without one. */
#include "scrtune.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    long thread; /* 0: none */
    core_time at;
} begun;

static bool look(core_time *now)
{
    char text[128];
    unsigned long long ran_ns, waited_ns;
    const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    /* the first is as old as the kernel's last tick; 0 where it does not count (sched_info_on) */
    if (sscanf(text, "%llu %llu", &ran_ns, &waited_ns) != 2 || ran_ns == 0) {
        return false;
    }
    *now = (core_time){.cpu_s = thread_s(), .run_delay_s = (double)waited_ns * 1e-9};
    return true;
}

void core_time_begin(void)
{
    begun.thread = job.is_root && look(&begun.at) ? syscall(SYS_gettid) : 0;
}

core_time core_time_end(void)
{
    core_time now = {0};
    const long thread = begun.thread;
    begun.thread = 0;
    if (thread == 0 || thread != syscall(SYS_gettid) || !look(&now)) {
        return (core_time){0};
    }
    return (core_time){.cpu_s = now.cpu_s - begun.at.cpu_s, .run_delay_s = now.run_delay_s - begun.at.run_delay_s};
}
