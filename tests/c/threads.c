/*
 * H3: one thread at a time. While one is inside, every function answers E_BUSY to the others and does nothing; `wakeup` alone
 * works from any thread and from a signal handler.
 */
#include "host.h"

#include <pthread.h>

static mcp_supervised_peer peer;

static void *poll_in_thread(void *event) {
    int32_t count;
    do {
        count = mcp_supervised_poll(host, event, sizeof(mcp_supervised_event), 1, -1);
    } while (count == 0 || count == MCP_SUPERVISED_E_BUSY);
    EQUAL(count, 1);
    return NULL;
}

static void until_somebody_is_inside(void) {
    while (mcp_supervised_fd(host) != MCP_SUPERVISED_E_BUSY) {
        sched_yield();
    }
}

static void everything_is_busy(void) {
    mcp_supervised_event event;
    mcp_supervised_peer other = 77;
    const char *text = NULL;
    size_t len = 77;
    uint64_t number = 77;
    mcp_supervised_spec *spec = demo(NULL);
    EQUAL(mcp_supervised_poll(host, &event, sizeof event, 1, 0), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_fd(host), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_advance(host, 1), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_last_error(host, &text, &len), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_shutdown(host, 0), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_add(host, spec, 0, &other), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_start(host, peer), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_send(host, peer, "{}", 2, &number), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_close(host, peer), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_remove(host, peer), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_state(host, peer), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_pid(host, peer), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_request(host, peer, "x", 1, "{}", 2, NULL, &number), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_notify(host, peer, "x", 1, "{}", 2), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_listen(host, peer, "{}", 2, 0, &number), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_cancel(host, peer, 1, NULL, 0), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_respond(host, peer, 1, "{}", 2), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_respond_error(host, peer, 1, -1, "x", 1, NULL, 0), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_server_info(host, peer, &text, &len), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_server_capabilities(host, peer, &text, &len), MCP_SUPERVISED_E_BUSY);
    EQUAL(mcp_supervised_free(host), MCP_SUPERVISED_E_BUSY);
    CHECK(other == 77 && text == NULL && len == 77 && number == 77);
    mcp_supervised_spec_free(spec);
}

/* E_BUSY leaves the text of the last error as it is (H4). */
static void last_error_is(const char *must_be) {
    const char *text = NULL;
    OK(mcp_supervised_last_error(host, &text, NULL));
    EQUAL(strcmp(text, must_be), 0);
}

static void one_inside_the_other_busy(void) {
    char before[256];
    const char *text = NULL;
    pthread_t thread;
    mcp_supervised_event event = {0};
    EQUAL(mcp_supervised_start(host, peer), MCP_SUPERVISED_E_ALREADY_STARTED);
    OK(mcp_supervised_last_error(host, &text, NULL));
    snprintf(before, sizeof before, "%s", text);
    CHECK(*before != '\0');

    EQUAL(pthread_create(&thread, NULL, poll_in_thread, &event), 0);
    until_somebody_is_inside();
    everything_is_busy();
    OK(mcp_supervised_wakeup(host));
    EQUAL(pthread_join(thread, NULL), 0);
    EQUAL(event.kind, MCP_SUPERVISED_EVENT_WAKEUP);
    EQUAL(event.peer, 0);
    last_error_is(before);
    /* `free` has freed nothing, and the handle goes on in this thread. */
    answers(peer);
}

static void wakeups_coalesce(void) {
    mcp_supervised_event events[8];
    for (int i = 0; i < 1000; i++) {
        OK(mcp_supervised_wakeup(host));
    }
    CHECK(is_readable());
    EQUAL(OK(mcp_supervised_poll(host, events, sizeof events[0], 8, 0)), 1);
    EQUAL(events[0].kind, MCP_SUPERVISED_EVENT_WAKEUP);
    EQUAL(OK(mcp_supervised_poll(host, events, sizeof events[0], 8, 0)), 0);
    CHECK(!is_readable());

    /* One that nobody has room for is not lost. */
    OK(mcp_supervised_wakeup(host));
    EQUAL(OK(mcp_supervised_poll(host, NULL, sizeof events[0], 0, 0)), 0);
    CHECK(is_readable());
    EQUAL(OK(mcp_supervised_poll(host, events, sizeof events[0], 8, -1)), 1);
    EQUAL(events[0].kind, MCP_SUPERVISED_EVENT_WAKEUP);
}

static void on_signal(int number) {
    (void)number;
    int before = errno;
    errno = EXDEV;
    int32_t status = mcp_supervised_wakeup(host);
    if (status != MCP_SUPERVISED_OK || errno != EXDEV) {
        _exit(3);
    }
    errno = before; /* whatever the signal came into is still to look at it */
}

static void *signal_main(void *main_thread) {
    until_somebody_is_inside();
    EQUAL(pthread_kill(*(pthread_t *)main_thread, SIGUSR1), 0);
    return NULL;
}

static void wakeup_in_a_signal_handler(void) {
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t thread, this_thread = pthread_self();
    EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    EQUAL(pthread_create(&thread, NULL, signal_main, &this_thread), 0);
    mcp_supervised_event event = {0};
    poll_in_thread(&event); /* the other one's look may come first */
    EQUAL(event.kind, MCP_SUPERVISED_EVENT_WAKEUP);
    EQUAL(pthread_join(thread, NULL), 0);

    /* Many, at whatever point of a call: each leaves the descriptor readable or is in the poll that follows. */
    for (int i = 0; i < 1000; i++) {
        EQUAL(raise(SIGUSR1), 0);
        EQUAL(expect(MCP_SUPERVISED_EVENT_WAKEUP)->peer, 0);
    }
}

/* Threads that wait on the descriptor, lock, and poll without blocking: whoever comes takes what is there. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int taken, over;

static void *share(void *unused) {
    (void)unused;
    for (;;) {
        EQUAL(pthread_mutex_lock(&lock), 0);
        struct pollfd watched = {.fd = OK(mcp_supervised_fd(host)), .events = POLLIN};
        EQUAL(pthread_mutex_unlock(&lock), 0);
        CHECK(poll(&watched, 1, -1) == 1 || errno == EINTR);
        EQUAL(pthread_mutex_lock(&lock), 0);
        mcp_supervised_event events[16];
        int32_t count = OK(mcp_supervised_poll(host, events, sizeof events[0], 16, 0));
        for (int32_t i = 0; i < count; i++) {
            taken += events[i].kind == MCP_SUPERVISED_EVENT_MESSAGE;
            over |= has_id(&events[i], "shared");
        }
        int leave = over;
        if (leave) {
            OK(mcp_supervised_wakeup(host)); /* the other one may be waiting for something to happen */
        }
        EQUAL(pthread_mutex_unlock(&lock), 0);
        if (leave) {
            return NULL;
        }
    }
}

static void threads_share_a_handle(void) {
    pthread_t first, second;
    call(peer, "shared", "flood", "{\"count\":20000}");
    EQUAL(pthread_create(&first, NULL, share, NULL), 0);
    EQUAL(pthread_create(&second, NULL, share, NULL), 0);
    EQUAL(pthread_join(first, NULL), 0);
    EQUAL(pthread_join(second, NULL), 0);
    EQUAL(taken, 20001);
}

int main(int argc, char **argv) {
    begin(argc, argv, 0);
    OK(mcp_supervised_new(NULL, &host, NULL, 0));
    peer = launch(demo(NULL));
    answers(peer);
    one_inside_the_other_busy();
    wakeups_coalesce();
    wakeup_in_a_signal_handler();
    threads_share_a_handle();
    end();
    printf("done\n");
    return 0;
}
