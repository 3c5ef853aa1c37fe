/*
 * What the loops of this folder have in common: a fleet of servers in one handle, and a job for them. Nothing here knows which
 * loop runs: it gives a descriptor to watch for input, wants to be called when it is readable, and at every tick of a timer.
 */
#ifndef FLEET_H
#define FLEET_H

/* Starts the servers. The command is that of the demo server; argv as main has it. Ends the program if something fails. */
void fleet_start(int argc, char **argv);

/* The descriptor to watch for input. It stays the same until fleet_end. */
int fleet_fd(void);

/* Call it when the descriptor is readable: it never blocks. A loop that watches edges says so, and the library is asked until it
   has nothing left. */
void fleet_readable(int edges);

/* Call it every FLEET_TICK_MS milliseconds. */
#define FLEET_TICK_MS 20
void fleet_tick(void);

/* Whether the job is done and the loop may end. */
int fleet_is_done(void);

/* Frees everything; the descriptor has to be out of the loop by now. The exit status of the program. */
int fleet_end(const char *loop);

/* Prints what failed and ends the program. */
_Noreturn void fleet_failed(const char *what, const char *why);

#endif
