/*
 * H3, HO-04: the host forks. In the child every function answers E_FORKED and does nothing, also when a thread of the parent
 * was inside the handle at that moment; `free` gives back what the child has. The parent notices nothing.
 */
#include "host.h"

#include <pthread.h>
#include <stdatomic.h>

static mcp_supervised_peer peer;

/* Everything that takes a handle, except `free`. */
static void everything_is_refused(void) {
    mcp_supervised_event event;
    mcp_supervised_peer other = 77;
    const char *text = NULL;
    size_t len = 77;
    uint64_t number = 77;
    mcp_supervised_spec *spec = demo(NULL);
    EQUAL(mcp_supervised_poll(host, &event, sizeof event, 1, 0), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_poll(host, NULL, 0, 1, -2), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_fd(host), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_wakeup(host), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_advance(host, 1), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_last_error(host, &text, &len), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_shutdown(host, 0), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_add(host, spec, 0, &other), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_start(host, peer), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_send(host, peer, "{}", 2, &number), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_close(host, peer), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_remove(host, peer), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_state(host, peer), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_pid(host, peer), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_request(host, peer, "x", 1, "{}", 2, NULL, &number), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_notify(host, peer, "x", 1, "{}", 2), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_listen(host, peer, "{}", 2, 0, &number), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_cancel(host, peer, 1, NULL, 0), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_respond(host, peer, 1, "{}", 2), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_respond_error(host, peer, 1, -1, "x", 1, NULL, 0), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_server_info(host, peer, &text, &len), MCP_SUPERVISED_E_FORKED);
    EQUAL(mcp_supervised_server_capabilities(host, peer, &text, &len), MCP_SUPERVISED_E_FORKED);
    CHECK(other == 77 && text == NULL && len == 77 && number == 77);
    mcp_supervised_spec_free(spec);
}

/* A fork whose child does `what` and leaves by exit(), destructors and all. */
static void in_child(void (*what)(void)) {
    int status = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        what();
        exit(0);
    }
    EQUAL(waitpid(child, &status, 0), child);
    EQUAL(status, 0);
}

static void nothing(void) {
}

static void refused_and_freed(void) {
    everything_is_refused();
    EQUAL(mcp_supervised_free(host), MCP_SUPERVISED_OK);
    /* The child may have a handle of its own. */
    OK(mcp_supervised_new(NULL, &host, NULL, 0));
    peer = launch(demo(NULL));
    answers(peer);
    end();
}

static void refused_in_a_grandchild(void) {
    in_child(everything_is_refused);
}

/* The server dies, and is replaced and answers. */
static void restarts(void) {
    kill_server(peer);
    expect(MCP_SUPERVISED_EVENT_DRAIN);
    EQUAL(expect(MCP_SUPERVISED_EVENT_CLOSE)->signal, SIGKILL);
    expect(MCP_SUPERVISED_EVENT_RECONNECT);
    answers(peer);
}

static void *poll_in_thread(void *event) {
    int32_t count;
    do {
        count = mcp_supervised_poll(host, event, sizeof(mcp_supervised_event), 1, -1);
    } while (count == 0 || count == MCP_SUPERVISED_E_BUSY);
    EQUAL(count, 1);
    return NULL;
}

/* While another thread is inside the handle: that thread does not exist in the child, and its hold is no hold. */
static void fork_while_a_thread_polls(void) {
    pthread_t thread;
    mcp_supervised_event event = {0};
    EQUAL(pthread_create(&thread, NULL, poll_in_thread, &event), 0);
    while (mcp_supervised_fd(host) != MCP_SUPERVISED_E_BUSY) {
        sched_yield();
    }
    in_child(refused_and_freed);
    OK(mcp_supervised_wakeup(host));
    EQUAL(pthread_join(thread, NULL), 0);
    EQUAL(event.kind, MCP_SUPERVISED_EVENT_WAKEUP);
    answers(peer);
}

/* A child that lives on holds copies of all pipes: no end of stdin reaches the server, and still it is replaced and ended. */
static void with_a_child_that_lives_on(int it_frees) {
    char byte;
    int leash[2], ready[2], status = 0;
    EQUAL(pipe(leash), 0);
    EQUAL(pipe(ready), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(leash[1]);
        if (it_frees) {
            EQUAL(mcp_supervised_free(host), MCP_SUPERVISED_OK);
        }
        EQUAL(write(ready[1], "", 1), 1);
        _exit(read(leash[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(leash[0]);
    EQUAL(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);

    answers(peer);
    OK(mcp_supervised_close(host, peer));
    expect(MCP_SUPERVISED_EVENT_DRAIN);
    const mcp_supervised_event *e = expect(MCP_SUPERVISED_EVENT_CLOSE);
    if (it_frees) {
        EQUAL(e->exit_code, 0); /* the end of its input */
    } else {
        EQUAL(e->signal, SIGTERM);
    }
    close(leash[1]);
    EQUAL(waitpid(child, &status, 0), child);
    EQUAL(status, 0);
    OK(mcp_supervised_remove(host, peer));
}

static atomic_int busy;

static void *drive_in_thread(void *unused) {
    mcp_supervised_event events[64];
    while (busy) {
        int32_t count = mcp_supervised_poll(host, events, sizeof events[0], 64, 10);
        CHECK(count >= 0);
        for (int32_t i = 0; i < count; i++) {
            if (events[i].kind == MCP_SUPERVISED_EVENT_MESSAGE && events[i].message_kind == MCP_SUPERVISED_MESSAGE_RESULT) {
                call(peer, "again", "flood", "{\"count\":2000,\"size\":300}");
            }
        }
    }
    return unused;
}

static void only_freed(void) {
    EQUAL(mcp_supervised_free(host), MCP_SUPERVISED_OK);
    _exit(0);
}

/* While another thread works inside the handle: whatever the fork caught it at, free in the child does no harm. */
static void fork_while_a_thread_works(void) {
    pthread_t thread;
    busy = 1;
    call(peer, "first", "flood", "{\"count\":2000,\"size\":300}");
    EQUAL(pthread_create(&thread, NULL, drive_in_thread, NULL), 0);
    for (int i = 0; i < 2000; i++) {
        in_child(only_freed);
    }
    busy = 0;
    EQUAL(pthread_join(thread, NULL), 0);
}

static mcp_supervised_peer patient_or_not(uint64_t close_grace_ms) {
    mcp_supervised_spec *spec = demo(NULL);
    OK(mcp_supervised_spec_restart(spec, MCP_SUPERVISED_UNLIMITED, 1, 60000));
    OK(mcp_supervised_spec_stop_grace(spec, close_grace_ms, UINT64_MAX));
    return launch(spec);
}

int main(int argc, char **argv) {
    begin(argc, argv, 0);
    OK(mcp_supervised_new(NULL, &host, NULL, 0));
    peer = patient_or_not(UINT64_MAX);
    int32_t pid = OK(mcp_supervised_pid(host, peer));
    answers(peer);

    in_child(nothing);
    in_child(everything_is_refused);
    in_child(refused_in_a_grandchild);
    in_child(refused_and_freed);
    answers(peer);

    /* With a call under way. */
    call(peer, "late", "sleep", "{\"ms\":20}");
    in_child(refused_and_freed);
    while (!has_id(next_event(), "late")) {
    }
    fork_while_a_thread_polls();
    EQUAL(OK(mcp_supervised_pid(host, peer)), pid);
    restarts();
    in_child(refused_and_freed);
    restarts();

    fork_while_a_thread_works();
    kill_server(peer);
    while (next_event()->kind != MCP_SUPERVISED_EVENT_RECONNECT) {
    }
    answers(peer);

    with_a_child_that_lives_on(1);
    peer = patient_or_not(20);
    restarts();
    with_a_child_that_lives_on(0);
    end();
    printf("done\n");
    return 0;
}
