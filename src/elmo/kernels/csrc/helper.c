/* One more thread for calls of a millisecond, which would wait longer for a thread of Python: it starts when it is
 * first needed, spins for a moment after each task and then sleeps. It never touches Python. A task that it has not
 * begun by the time the caller is ready is taken back, so nobody waits for a thread that has no core.
 */
#include "kernels.h"

#if defined(_WIN32)

int64_t elmo_has_helper(void) { return 0; }
void elmo_wake_helper(void) {}
void elmo_run_both(elmo_task task, void *first, void *second, int64_t single_threaded) {
    (void)single_threaded;
    task(first);
    task(second);
}

#else

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define ELMO_SPIN_NANOSECONDS 100000
#define ELMO_SPINS_PER_LOOK 32 /* at the clock */

enum { FREE, POSTED, TAKEN, DONE };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* the helper or its caller sleeps on it */
static atomic_int state, in_use, num_sleeping, is_woken;
static int is_running, handles_forks; /* only changed by who has set in_use */
static elmo_task posted_task;
static void *posted_argument;

int64_t elmo_has_helper(void) { return 1; }

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t read_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void wake_sleepers(void) {
    if (!atomic_load(&num_sleeping))
        return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Wait until the state is `wanted`: spin, then sleep. With `until_woken`, being woken starts the spinning again. */
static void wait_for(int wanted, int until_woken) {
    for (;;) {
        int64_t end = read_clock() + ELMO_SPIN_NANOSECONDS;
        do
            for (int spin = 0; spin < ELMO_SPINS_PER_LOOK; spin++) {
                if (atomic_load_explicit(&state, memory_order_acquire) == wanted)
                    return;
                pause_briefly();
            }
        while (read_clock() < end);
        pthread_mutex_lock(&lock);
        atomic_fetch_add(&num_sleeping, 1);
        while (atomic_load(&state) != wanted && !(until_woken && atomic_load(&is_woken)))
            pthread_cond_wait(&changed, &lock);
        atomic_fetch_sub(&num_sleeping, 1);
        if (until_woken)
            atomic_store(&is_woken, 0);
        pthread_mutex_unlock(&lock);
    }
}

static void *help(void *unused) {
    for (;;) {
        wait_for(POSTED, 1);
        int expected = POSTED;
        if (!atomic_compare_exchange_strong(&state, &expected, TAKEN))
            continue; /* the caller took it back */
        posted_task(posted_argument);
        atomic_store(&state, DONE);
        wake_sleepers();
    }
    return unused;
}

static void forget_helper(void) { /* in a forked process, which has no thread but the one that forked */
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    state = FREE;
    in_use = num_sleeping = is_woken = is_running = 0;
}

/* Whether the helper, started if need be, belongs to this caller until it clears in_use. */
static int claim_helper(void) {
    if (atomic_exchange(&in_use, 1))
        return 0;
    if (is_running)
        return 1;
    if (!handles_forks)
        handles_forks = pthread_atfork(NULL, NULL, forget_helper) == 0;
    pthread_t thread;
    sigset_t all, usual;
    sigfillset(&all); /* signals are for the threads of Python */
    pthread_sigmask(SIG_SETMASK, &all, &usual);
    is_running = handles_forks && pthread_create(&thread, NULL, help, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &usual, NULL);
    if (is_running)
        pthread_detach(thread);
    else
        atomic_store(&in_use, 0);
    return is_running;
}

void elmo_wake_helper(void) {
    if (atomic_load(&num_sleeping) && !atomic_load(&in_use)) {
        atomic_store(&is_woken, 1);
        wake_sleepers();
    }
}

void elmo_run_both(elmo_task task, void *first, void *second, int64_t single_threaded) {
    if (single_threaded || !claim_helper()) {
        task(first);
        task(second);
        return;
    }
    posted_task = task;
    posted_argument = second;
    atomic_store(&state, POSTED);
    wake_sleepers();
    task(first);
    int expected = POSTED;
    if (atomic_compare_exchange_strong(&state, &expected, FREE)) {
        task(second);
    } else {
        wait_for(DONE, 0);
        atomic_store(&state, FREE);
    }
    atomic_store(&in_use, 0);
}

#endif
