// The loss makes a program slower by a known part, for `bench/gate --self-check`: the planted loss that the gate must find.
//
//   cc -shared -fPIC -O2 -o loss.so bench/loss.c
//   LOSS=0.05 LD_PRELOAD=./loss.so tickwheel serve ..
//
// Wherever a thread is about to wait, it first works in vain for that part of the CPU that it has used since. So every thread
// of the program costs that much more, whatever it does and however fast the machine is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

// Nanoseconds of this thread at the end of the last vain work, and those that it owes. What looks at the clock cost beyond
// that is taken from the next one.
static __thread long long seen, owed;

static long long used(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void lose(void) {
    static double part = -1;
    if (part < 0)
        part = getenv("LOSS") ? atof(getenv("LOSS")) : 0;
    long long begun = used(), now = begun;
    owed += (long long)((begun - seen) * part);
    while (now - begun < owed)
        now = used();
    owed -= now - begun;
    seen = now;
}

int epoll_wait(int queue, struct epoll_event *events, int count, int timeout) {
    static int (*next)(int, struct epoll_event *, int, int);
    if (!next)
        next = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    lose();
    return next(queue, events, count, timeout);
}

// Threads wait for each other by it (futex).
long syscall(long number, long a, long b, long c, long d, long e, long f) {
    static long (*next)(long, long, long, long, long, long, long);
    if (!next)
        next = (long (*)(long, long, long, long, long, long, long))dlsym(RTLD_NEXT, "syscall");
    lose();
    return next(number, a, b, c, d, e, f);
}
