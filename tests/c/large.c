/*
 * P3, H3: a host with 2 GiB resident. A fork would have to copy its page tables and make every page copy-on-write, which the host
 * pays for page by page afterwards; a spawn must not. The faults of writing to all pages again are counted, not the time.
 */
#define _DEFAULT_SOURCE
#include "host.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define SIZE ((size_t)2 << 30)

static unsigned char *memory;
static size_t page;

/* Writes to every page; how many of them had to be made writable again. */
static long faults_of_writing(void) {
    struct rusage before, after;
    EQUAL(getrusage(RUSAGE_SELF, &before), 0);
    for (size_t at = 0; at < SIZE; at += page) {
        memory[at]++;
    }
    EQUAL(getrusage(RUSAGE_SELF, &after), 0);
    return after.ru_minflt - before.ru_minflt;
}

int main(int argc, char **argv) {
    begin(argc, argv, 0);
    page = (size_t)sysconf(_SC_PAGESIZE);
    memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    madvise(memory, SIZE, MADV_NOHUGEPAGE);
    const long pages = (long)(SIZE / page);
    CHECK(faults_of_writing() >= pages);
    CHECK(faults_of_writing() < pages / 100);

    /* What a fork costs, so that this test can tell. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(0);
    }
    EQUAL(waitpid(child, NULL, 0), child);
    CHECK(faults_of_writing() >= pages);
    CHECK(faults_of_writing() < pages / 100);

    OK(mcp_supervised_new(NULL, &host, NULL, 0));
    mcp_supervised_spec *spec = demo(NULL);
    OK(mcp_supervised_spec_restart(spec, MCP_SUPERVISED_UNLIMITED, 1, 60000));
    mcp_supervised_peer peer = launch(spec);
    answers(peer);
    CHECK(faults_of_writing() < pages / 100);
    for (int i = 0; i < 3; i++) {
        kill_server(peer);
        await(MCP_SUPERVISED_EVENT_RECONNECT);
        answers(peer);
        CHECK(faults_of_writing() < pages / 100);
    }
    end();
    printf("done\n");
    return 0;
}
