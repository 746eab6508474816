#include "app/storage_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct storage_thread {
    uv_async_t finished;
    pthread_t thread;
    bool started; /* of the loop alone */
    void (*done)(void *user);
    uv_mutex_t lock; /* guards what follows */
    uv_cond_t wake;
    void (*work)(void *user); /* NULL: nothing to do */
    void *user;
    bool worked, ending, waited_for;
};

static void *run(void *user)
{
    struct storage_thread *t = user;
    uv_mutex_lock(&t->lock);
    for (;;) {
        while (!t->work && !t->ending)
            uv_cond_wait(&t->wake, &t->lock);
        if (!t->work)
            break;
        void (*work)(void *) = t->work;
        uv_mutex_unlock(&t->lock);
        work(t->user);
        uv_mutex_lock(&t->lock);
        t->work = NULL;
        t->worked = true;
        if (t->waited_for)
            uv_cond_broadcast(&t->wake);
        else
            uv_async_send(&t->finished);
    }
    uv_mutex_unlock(&t->lock);
    return NULL;
}

static void on_finished(uv_async_t *a)
{
    struct storage_thread *t = a->data;
    uv_mutex_lock(&t->lock);
    bool worked = t->worked;
    t->worked = false;
    uv_mutex_unlock(&t->lock);
    if (!worked)
        return;
    uv_unref((uv_handle_t *)&t->finished);
    t->done(t->user); /* may free us */
}

int storage_thread_new(struct storage_thread **ret, uv_loop_t *loop, struct error *err)
{
    struct storage_thread *t = calloc(1, sizeof *t);
    if (!t)
        return error_oom(err);
    int r = uv_async_init(loop, &t->finished, on_finished);
    if (r < 0) {
        free(t);
        return error_system(err, -r, "cannot have a thread for the objects' storage");
    }
    uv_unref((uv_handle_t *)&t->finished);
    t->finished.data = t;
    uv_mutex_init(&t->lock);
    uv_cond_init(&t->wake);
    *ret = t;
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct storage_thread *t = h->data;
    uv_cond_destroy(&t->wake);
    uv_mutex_destroy(&t->lock);
    free(t);
}

void storage_thread_free(struct storage_thread *t)
{
    if (!t)
        return;
    if (t->started) {
        uv_mutex_lock(&t->lock);
        t->ending = true;
        uv_cond_broadcast(&t->wake);
        uv_mutex_unlock(&t->lock);
        pthread_join(t->thread, NULL);
    }
    uv_close((uv_handle_t *)&t->finished, on_closed);
}

bool storage_thread_wait(struct storage_thread *t, unsigned us)
{
    uint64_t end = uv_hrtime() + (uint64_t)us * 1000, now;
    uv_mutex_lock(&t->lock);
    t->waited_for = true;
    while (t->work && (now = uv_hrtime()) < end)
        uv_cond_timedwait(&t->wake, &t->lock, end - now);
    t->waited_for = false;
    bool worked = t->worked;
    t->worked = false;
    uv_mutex_unlock(&t->lock);
    if (worked)
        uv_unref((uv_handle_t *)&t->finished);
    return worked;
}

/* Signals are for the loop's thread. */
static int start(struct storage_thread *t, struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&t->thread, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        return error_system(err, r, "cannot start a thread for the objects' storage");
    t->started = true;
    return 0;
}

int storage_thread_run(struct storage_thread *t, void (*work)(void *user), void (*done)(void *user),
                       void *user, struct error *err)
{
    if (!t->started && start(t, err) < 0)
        return -1;
    t->done = done;
    uv_ref((uv_handle_t *)&t->finished);
    uv_mutex_lock(&t->lock);
    t->work = work;
    t->user = user;
    uv_cond_broadcast(&t->wake);
    uv_mutex_unlock(&t->lock);
    return 0;
}
