/*
 * H3 under load: threads that do not ask each other. Whoever comes second gets E_BUSY and nothing happens; nobody ever sees the
 * inside of another's call. Made for ThreadSanitizer, which finds the access that no lock orders; useful without it as well.
 */
#include "host.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4
#define ENOUGH 3000 /* calls that met another one, and as many that did not */
#define RINGERS 10
#define RINGS 200

static mcp_supervised_peer peer;
static atomic_long busy, done;

/* A number that is not the same for all threads. */
static unsigned next(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* One call of the interface. Texts that are lent are not looked at: another thread may be through with them already. */
static int32_t one_call(unsigned which, mcp_supervised_event *events) {
    const char *text;
    size_t len;
    mcp_supervised_request_id id = 0;
    mcp_supervised_peer added = 0;
    int32_t status;
    switch (which % 14) {
        case 0:
        case 1:
        case 2:
        case 3: return mcp_supervised_poll(host, events, sizeof events[0], 16, 0);
        case 4: return mcp_supervised_poll(host, events, sizeof events[0], 16, 1);
        case 5: return mcp_supervised_state(host, peer);
        case 6: return mcp_supervised_pid(host, peer);
        case 7: return mcp_supervised_last_error(host, &text, &len);
        case 8: return mcp_supervised_server_capabilities(host, peer, &text, &len);
        case 9: return mcp_supervised_notify(host, peer, "notifications/x", MCP_SUPERVISED_CSTR, "{}", 2);
        case 10: return mcp_supervised_wakeup(host);
        case 11:
            status = mcp_supervised_listen(host, peer, "{\"toolsListChanged\":true}", MCP_SUPERVISED_CSTR, 0, &id);
            return status < 0 ? status : mcp_supervised_cancel(host, peer, id, NULL, 0);
        case 12: {
            mcp_supervised_spec *spec = demo(NULL);
            status = mcp_supervised_add(host, spec, 0, &added);
            mcp_supervised_spec_free(spec);
            return status < 0 ? status : mcp_supervised_remove(host, added);
        }
        default:
            return mcp_supervised_request(host, peer, MCP_SUPERVISED_METHOD_TOOLS_CALL, MCP_SUPERVISED_CSTR,
                                          "{\"name\":\"crash\"}", which % 300 == 13 ? MCP_SUPERVISED_CSTR : 0, NULL, &id);
    }
}

static void *hammer(void *seed) {
    unsigned state = *(unsigned *)seed;
    mcp_supervised_event events[16];
    while (atomic_load(&busy) < ENOUGH || atomic_load(&done) < ENOUGH) {
        int32_t status = one_call(next(&state), events);
        switch (status) {
            case MCP_SUPERVISED_E_BUSY:
                atomic_fetch_add(&busy, 1);
                sched_yield();
                break;
            case MCP_SUPERVISED_E_CLOSED: /* it has crashed */
            case MCP_SUPERVISED_E_WOULD_BLOCK:
            case MCP_SUPERVISED_E_NO_REQUEST: /* another one polled its end in between */ break;
            default: atomic_fetch_add(&done, OK(status) >= 0);
        }
    }
    return NULL;
}

static void two_never_meet(void) {
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i;
        EQUAL(pthread_create(&threads[i], NULL, hammer, &seeds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        EQUAL(pthread_join(threads[i], NULL), 0);
    }
}

/* A ring that nobody answered would leave its thread waiting. */
static atomic_long heard;
static atomic_int ringing = RINGERS;

static void *ring(void *unused) {
    for (int i = 0; i < RINGS; i++) {
        long before = atomic_load(&heard);
        OK(mcp_supervised_wakeup(host));
        while (atomic_load(&heard) == before) {
            sched_yield();
        }
    }
    atomic_fetch_sub(&ringing, 1);
    OK(mcp_supervised_wakeup(host));
    return unused;
}

static void ten_threads_wake_it_up(void) {
    pthread_t threads[RINGERS];
    for (int i = 0; i < RINGERS; i++) {
        EQUAL(pthread_create(&threads[i], NULL, ring, NULL), 0);
    }
    while (atomic_load(&ringing) > 0) {
        if (next_event()->kind == MCP_SUPERVISED_EVENT_WAKEUP) {
            atomic_fetch_add(&heard, 1);
        }
    }
    for (int i = 0; i < RINGERS; i++) {
        EQUAL(pthread_join(threads[i], NULL), 0);
    }
}

/* Whoever frees while others are inside gets E_BUSY, until one day nobody is. The others are told to stop before they could use
   what is gone. */
static atomic_int leave;

static void *poll_until_told(void *unused) {
    mcp_supervised_event events[16];
    while (!atomic_load(&leave)) {
        int32_t count = mcp_supervised_poll(host, events, sizeof events[0], 16, 1);
        CHECK(count >= 0 || count == MCP_SUPERVISED_E_BUSY);
    }
    return unused;
}

static void freed_by_one(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        EQUAL(pthread_create(&threads[i], NULL, poll_until_told, NULL), 0);
    }
    while (mcp_supervised_fd(host) != MCP_SUPERVISED_E_BUSY) {
        sched_yield();
    }
    atomic_store(&leave, 1);
    for (int i = 0; i < 2; i++) {
        EQUAL(pthread_join(threads[i], NULL), 0);
    }
    end();
}

int main(int argc, char **argv) {
    begin(argc, argv, 0);
    OK(mcp_supervised_new(NULL, &host, NULL, 0));
    mcp_supervised_spec *spec = demo(NULL);
    OK(mcp_supervised_spec_mode(spec, MCP_SUPERVISED_MODE_MODERN));
    OK(mcp_supervised_spec_restart(spec, MCP_SUPERVISED_UNLIMITED, 1, 60000));
    peer = launch(spec);
    two_never_meet();
    ten_threads_wake_it_up();
    freed_by_one();
    printf("done\n");
    return 0;
}
