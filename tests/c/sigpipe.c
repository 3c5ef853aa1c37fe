/*
 * P5, HO-03: a host that has left SIGPIPE alone writes to servers that are dying or dead, through 20 restarts, and lives. The
 * signal's disposition, its mask and what is pending are afterwards what they were before.
 */
#include "host.h"

#define RESTARTS 20
#define BIG (1 << 20)

static char big_line[BIG];

static void make_big_line(void) {
    static const char BEFORE[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/big\",\"params\":{\"pad\":\"";
    memset(big_line, 'x', sizeof big_line);
    memcpy(big_line, BEFORE, sizeof BEFORE - 1);
    memcpy(big_line + sizeof big_line - 3, "\"}}", 3);
}

static void send_small(mcp_supervised_peer peer) {
    int32_t status = mcp_supervised_send(host, peer, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}",
                                         MCP_SUPERVISED_CSTR, NULL);
    CHECK(status == MCP_SUPERVISED_OK || status == MCP_SUPERVISED_E_CLOSED);
}

/* The process is dead for certain, and nobody has told the library. */
static void wait_dead(int32_t pid) {
    siginfo_t info;
    EQUAL(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void is_untouched(void) {
    struct sigaction action;
    sigset_t set;
    EQUAL(sigaction(SIGPIPE, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL);
    EQUAL(sigprocmask(SIG_BLOCK, NULL, &set), 0);
    EQUAL(sigismember(&set, SIGPIPE), 0);
    EQUAL(sigpending(&set), 0);
    EQUAL(sigismember(&set, SIGPIPE), 0);
}

int main(int argc, char **argv) {
    begin(argc, argv, 0);
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    make_big_line();
    OK(mcp_supervised_new(NULL, &host, NULL, 0));
    mcp_supervised_spec *spec = demo(NULL);
    OK(mcp_supervised_spec_restart(spec, MCP_SUPERVISED_UNLIMITED, 1, 60000));
    mcp_supervised_peer peer = launch(spec);

    for (int i = 0; i < RESTARTS; i++) {
        int32_t pid = OK(mcp_supervised_pid(host, peer));
        const mcp_supervised_event *e;
        answers(peer); /* and the queue is empty: what is sent next is written by the send itself */
        switch (i % 4) {
            case 0: /* between two writes */
                kill_server(peer);
                wait_dead(pid);
                send_small(peer);
                break;
            case 1: /* the same with a line that does not fit into the pipe */
                kill_server(peer);
                wait_dead(pid);
                OK(mcp_supervised_send(host, peer, big_line, sizeof big_line, NULL));
                break;
            case 2: /* while 1 MiB is being written: the call is read first, the line behind it is on its way */
                call(peer, "bye", "crash", "{\"code\":7}");
                OK(mcp_supervised_send(host, peer, big_line, sizeof big_line, NULL));
                break;
            default: /* while it dies */
                call(peer, "bye", "crash", "{\"code\":7}");
                break;
        }
        do {
            send_small(peer);
            e = next_event();
        } while (e->kind != MCP_SUPERVISED_EVENT_CLOSE);
        CHECK(e->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT);
        EQUAL(e->pid, pid);
        if (i % 4 < 2) {
            EQUAL(e->signal, SIGKILL);
        } else {
            EQUAL(e->exit_code, 7);
        }
        EQUAL(expect(MCP_SUPERVISED_EVENT_RECONNECT)->life, i + 2);
        is_untouched();
    }
    answers(peer);
    OK(mcp_supervised_close(host, peer));
    EQUAL(await(MCP_SUPERVISED_EVENT_CLOSE)->exit_code, 0);
    end();
    is_untouched();
    printf("done\n");
    return 0;
}
