/*
 * P4, HO-01: a thread of the host reaps whatever child ends, the servers among them, while 30 of them die and are replaced.
 */
#include "host.h"

#include <pthread.h>
#include <stdatomic.h>

#define DEATHS 30

static atomic_int over;

static void *reap(void *unused) {
    (void)unused;
    for (;;) {
        if (waitpid(-1, NULL, 0) < 0) {
            CHECK(errno == ECHILD || errno == EINTR);
            if (atomic_load(&over)) {
                return NULL;
            }
            sched_yield();
        }
    }
}

int main(int argc, char **argv) {
    pthread_t reaper;
    begin(argc, argv, 0);
    OK(mcp_supervised_new(NULL, &host, NULL, 0));
    mcp_supervised_spec *spec = demo(NULL);
    OK(mcp_supervised_spec_restart(spec, DEATHS, 1, 600000));
    mcp_supervised_peer peer = launch(spec);
    EQUAL(pthread_create(&reaper, NULL, reap, NULL), 0);

    int unknown = 0;
    for (int i = 0; i < DEATHS; i++) {
        int by_signal = i % 2;
        answers(peer);
        if (by_signal) {
            kill_server(peer);
        } else {
            call(peer, "bye", "crash", "{\"code\":7}");
        }
        expect(MCP_SUPERVISED_EVENT_DRAIN);
        const mcp_supervised_event *e = expect(MCP_SUPERVISED_EVENT_CLOSE);
        EQUAL(e->attempt, i + 1);
        CHECK(e->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT);
        if (e->flags & MCP_SUPERVISED_FLAG_EXIT_UNKNOWN) {
            unknown++;
            EQUAL(e->exit_code, -1);
            EQUAL(e->signal, 0);
        } else {
            EQUAL(e->exit_code, by_signal ? -1 : 7);
            EQUAL(e->signal, by_signal ? SIGKILL : 0);
        }
        EQUAL(expect(MCP_SUPERVISED_EVENT_RECONNECT)->life, i + 2);
    }
    answers(peer);
    OK(mcp_supervised_close(host, peer));
    expect(MCP_SUPERVISED_EVENT_DRAIN);
    CHECK(expect(MCP_SUPERVISED_EVENT_CLOSE)->flags & MCP_SUPERVISED_FLAG_FINAL);

    /* `free` kills and reaps what is left, and does not wait for what somebody else has reaped. */
    launch(demo(NULL));
    end();
    atomic_store(&over, 1);
    EQUAL(pthread_join(reaper, NULL), 0);
    printf("done, %d of %d exits unknown\n", unknown, DEATHS);
    return 0;
}
