/*
 * P4, HO-01: a host that wants to hear nothing of its children, by SIG_IGN ("ignore") or SA_NOCLDWAIT ("nocldwait"), so that
 * the system reaps the servers and their status may be lost. Restarts and close work all the same, and the host's own child
 * is left alone.
 */
#include "host.h"

#define RESTARTS 10

static struct sigaction wanted;

static void set_disposition(const char *how) {
    memset(&wanted, 0, sizeof wanted);
    if (strcmp(how, "ignore") == 0) {
        wanted.sa_handler = SIG_IGN;
    } else {
        EQUAL(strcmp(how, "nocldwait"), 0);
        wanted.sa_handler = SIG_DFL;
        wanted.sa_flags = SA_NOCLDWAIT;
    }
    EQUAL(sigaction(SIGCHLD, &wanted, NULL), 0);
}

static void disposition_is_untouched(void) {
    struct sigaction now;
    EQUAL(sigaction(SIGCHLD, NULL, &now), 0);
    CHECK(now.sa_handler == wanted.sa_handler);
    EQUAL(now.sa_flags & SA_NOCLDWAIT, wanted.sa_flags);
}

/* The status is the true one, or it is said to be unknown. */
static void ended_by(const mcp_supervised_event *e, int code, int by_signal) {
    if (e->flags & MCP_SUPERVISED_FLAG_EXIT_UNKNOWN) {
        EQUAL(e->exit_code, -1);
        EQUAL(e->signal, 0);
    } else {
        EQUAL(e->exit_code, code);
        EQUAL(e->signal, by_signal);
    }
}

int main(int argc, char **argv) {
    begin(argc, argv, 1);
    set_disposition(argv[2]);

    /* A child of the host's own, which ends when the host says so. */
    int leash[2];
    EQUAL(pipe(leash), 0);
    pid_t own = fork();
    CHECK(own >= 0);
    if (own == 0) {
        char byte;
        close(leash[1]);
        _exit(read(leash[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(leash[0]);

    OK(mcp_supervised_new(NULL, &host, NULL, 0));
    mcp_supervised_spec *spec = demo(NULL);
    OK(mcp_supervised_spec_restart(spec, RESTARTS, 1, 60000));
    mcp_supervised_peer peer = launch(spec);
    for (int i = 0; i < RESTARTS; i++) {
        int by_signal = i % 2;
        int32_t pid = OK(mcp_supervised_pid(host, peer));
        answers(peer);
        if (by_signal) {
            kill_server(peer);
        } else {
            call(peer, "bye", "crash", "{\"code\":7}");
        }
        expect(MCP_SUPERVISED_EVENT_DRAIN);
        const mcp_supervised_event *e = expect(MCP_SUPERVISED_EVENT_CLOSE);
        ended_by(e, by_signal ? -1 : 7, by_signal ? SIGKILL : 0);
        EQUAL(e->pid, pid);
        EQUAL(e->attempt, i + 1);
        CHECK(e->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT);
        EQUAL(expect(MCP_SUPERVISED_EVENT_RECONNECT)->life, i + 2);
    }
    answers(peer);
    OK(mcp_supervised_close(host, peer));
    expect(MCP_SUPERVISED_EVENT_DRAIN);
    const mcp_supervised_event *e = expect(MCP_SUPERVISED_EVENT_CLOSE);
    ended_by(e, 0, 0);
    CHECK(e->flags & MCP_SUPERVISED_FLAG_FINAL);

    /* And with the death that spends the budget. */
    spec = demo(NULL);
    OK(mcp_supervised_spec_restart(spec, MCP_SUPERVISED_NO_RESTART, 1, 60000));
    peer = launch(spec);
    kill_server(peer);
    expect(MCP_SUPERVISED_EVENT_DRAIN);
    ended_by(expect(MCP_SUPERVISED_EVENT_CLOSE), -1, SIGKILL);
    expect(MCP_SUPERVISED_EVENT_EXHAUSTED);

    /* What is still running when the handle goes is ended as well. */
    peer = launch(demo(NULL));
    int32_t left = OK(mcp_supervised_pid(host, peer));
    end();
    EQUAL(kill(left, 0), -1);
    EQUAL(errno, ESRCH);

    disposition_is_untouched();
    EQUAL(kill(own, 0), 0);
    close(leash[1]);
    /* As it is without the library: with children that nobody wants, waiting lasts until there are none. */
    EQUAL(waitpid(own, NULL, 0), -1);
    EQUAL(errno, ECHILD);
    printf("done\n");
    return 0;
}
