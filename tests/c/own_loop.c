/*
 * H1: the descriptor in the host's own loop, watched in one of four ways:
 *
 *     poll       poll(2)
 *     level      epoll
 *     edge-once  epoll for edges, one poll of 64 events for each (what a host does whose runtime owns the epoll)
 *     edge-dry   epoll for edges, polls until one brings less than it could
 *
 * All waits are without a timeout, so an edge that is missing is a hang. A flood comes through completely and in order, and so do
 * a restart whose delay is all there is to wait for, and events that are taken one at a time.
 */
#include "host.h"

#include <sys/epoll.h>

#define NOTES 200000
#define BATCH 64

static const char *how;
static int watching = -1;
static uint32_t notes, closes, reconnects, answered;
static mcp_supervised_peer peer;

static void watch(void) {
    struct epoll_event wanted = {.events = EPOLLIN};
    if (strcmp(how, "poll") == 0) {
        return;
    }
    if (strcmp(how, "level") != 0) {
        CHECK(strcmp(how, "edge-once") == 0 || strcmp(how, "edge-dry") == 0);
        wanted.events |= (uint32_t)EPOLLET;
    }
    watching = epoll_create1(EPOLL_CLOEXEC);
    CHECK(watching >= 0);
    EQUAL(epoll_ctl(watching, EPOLL_CTL_ADD, OK(mcp_supervised_fd(host)), &wanted), 0);
}

static void wait_in_own_way(void) {
    struct epoll_event came;
    if (watching < 0) {
        wait_readable();
        return;
    }
    int count;
    do {
        count = epoll_wait(watching, &came, 1, -1);
    } while (count < 0 && errno == EINTR);
    EQUAL(count, 1);
}

static void on_event(const mcp_supervised_event *e) {
    char begins[128];
    switch (e->kind) {
        case MCP_SUPERVISED_EVENT_MESSAGE:
            if (e->message_kind != MCP_SUPERVISED_MESSAGE_NOTIFICATION) {
                answered++;
                break;
            }
            snprintf(begins, sizeof begins, "{\"level\":\"info\",\"data\":{\"n\":%u,", (unsigned)notes);
            CHECK(e->body_len > strlen(begins) && memcmp(e->body, begins, strlen(begins)) == 0);
            notes++;
            break;
        case MCP_SUPERVISED_EVENT_CLOSE: closes++; break;
        case MCP_SUPERVISED_EVENT_RECONNECT: reconnects++; break;
        default: break;
    }
}

/* One round of the loop: the host hears that there is something, and takes `most` events at a time. */
static void one_round(size_t most) {
    mcp_supervised_event events[BATCH];
    int32_t count;
    wait_in_own_way();
    do {
        count = OK(mcp_supervised_poll(host, events, sizeof events[0], most, 0));
        for (int32_t i = 0; i < count; i++) {
            on_event(&events[i]);
        }
    } while (strcmp(how, "edge-dry") == 0 && (size_t)count == most);
}

int main(int argc, char **argv) {
    begin(argc, argv, 1);
    how = argv[2];
    OK(mcp_supervised_new(NULL, &host, NULL, 0));
    watch();
    mcp_supervised_spec *spec = demo(NULL);
    OK(mcp_supervised_spec_restart(spec, 3, 20, 60000));
    peer = launch(spec);

    char arguments[64];
    snprintf(arguments, sizeof arguments, "{\"count\":%d}", NOTES);
    call(peer, "flood", "flood", arguments);
    while (answered == 0) {
        one_round(BATCH);
    }
    EQUAL(notes, NOTES);

    /* A death without a word, and then nothing but the delay. */
    kill_server(peer);
    while (closes == 0) {
        one_round(BATCH);
    }
    while (reconnects == 0) {
        one_round(BATCH);
    }

    /* One event for each time it is heard. */
    notes = 0;
    answered = 0;
    call(peer, "drip", "flood", "{\"count\":100,\"one_write\":true}");
    while (answered == 0) {
        one_round(1);
    }
    EQUAL(notes, 100);

    /* What is there at once is heard as well: the DRAIN of a close, and what follows it. */
    OK(mcp_supervised_close(host, peer));
    while (closes == 1) {
        one_round(1);
    }
    if (watching >= 0) {
        close(watching);
    }
    end();
    printf("done\n");
    return 0;
}
