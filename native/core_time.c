/* How long a thread ran and waited for a core, as Linux counts (schedstat): rank 0's between two outputs, by which the
 * daemon knows what a flush beside the application takes, even where no step is without one; and those of a flush. */
#include "scrtune.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    long thread; /* 0: none */
    core_time at;
} begun;

bool core_time_now(core_time *now)
{
    char text[128];
    unsigned long long ran_ns, waited_ns;
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* a thread of AXL's would leave the file open */
    const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) {
        close(file);
    }
    pthread_setcancelstate(before, NULL);
    text[length > 0 ? length : 0] = '\0';
    *now = (core_time){0};
    if (sscanf(text, "%llu %llu", &ran_ns, &waited_ns) != 2) {
        return false;
    }
    *now = (core_time){.cpu_s = thread_s(), .run_delay_s = (double)waited_ns * 1e-9};
    return ran_ns > 0; /* as old as the kernel's last tick; 0 where it does not count (sched_info_on) */
}

void core_time_begin(void)
{
    begun.thread = 0;
    if (job.is_root) {
        core_time_now(&begun.at);
        begun.thread = begun.at.cpu_s > 0 ? syscall(SYS_gettid) : 0;
    }
}

core_time core_time_end(void)
{
    core_time now = {0};
    const long thread = begun.thread;
    begun.thread = 0;
    if (thread == 0 || thread != syscall(SYS_gettid) || !core_time_now(&now)) {
        return (core_time){0};
    }
    return (core_time){.cpu_s = now.cpu_s - begun.at.cpu_s, .run_delay_s = now.run_delay_s - begun.at.run_delay_s};
}
