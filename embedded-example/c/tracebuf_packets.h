/*
 * tracebuf for C firmware whose device makes whole packets and looks into its own trace. Other firmware needs
 * tracebuf.h: whole packets take 14 KB of code more and many more instructions, and there are four writers at most.
 *
 *     static _Alignas(8) uint8_t region[8192] __attribute__((section(".uninit")));
 *
 *     if (tracebuf_packets_init(region, sizeof region, 25000000, read_clock) == TRACEBUF_PACKETS_FOUND)
 *         tracebuf_packets_export(write_before, NULL);
 *     tracebuf_packets_writer *main_loop = tracebuf_packets_writer_new("main loop");
 *     for (;;) {
 *         tracebuf_packets_slice_begin(main_loop, "step");
 *         step();
 *         tracebuf_packets_slice_end(main_loop);
 *         tracebuf_packets_drain();
 *     }
 *
 * The linker script needs an output section `.uninit (NOLOAD)` in RAM that start-up code does not clear: test/link.ld
 * has one. Without NOLOAD the region is part of the image, and what was recorded before a reset may be overwritten.
 *
 * Link libtracebuf_c.a: `cargo build --profile small -p tracebuf-c --features packets --target thumbv7em-none-eabihf`
 * builds it for size into target/thumbv7em-none-eabihf/small; for a Cortex-M0 or M0+ the target is thumbv6m-none-eabi.
 * With it test/packets_main.c takes 48 KB of flash; with that of `--release`, built for speed, 65 KB.
 *
 * Besides the region it takes 3.8 KB of RAM, however few writers and counters there are, and 1.2 KB of stack; 2.9 KB in
 * a start that finds what was left before a reset, and in an export. If there is less, the stack grows into what lies
 * below it, perhaps the region.
 *
 * Each priority (main loop, each interrupt) has its own writer and passes no other's to any call. Names are string
 * literals: their memory must not change. They are UTF-8; a name that is not (such as Latin-1 with umlauts) appears as
 * "?". A name of more than 80 bytes is cut after the last whole character that fits. Nothing here allocates, and only
 * an export waits; no failure needs a reaction from the program: what does not fit is dropped and counted in the trace.
 */
#ifndef TRACEBUF_PACKETS_H
#define TRACEBUF_PACKETS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most writers and counters. */
#define TRACEBUF_PACKETS_WRITERS 4
#define TRACEBUF_PACKETS_COUNTERS 8

typedef struct tracebuf_packets_writer tracebuf_packets_writer;
typedef struct tracebuf_packets_counter tracebuf_packets_counter;

/*
 * The time in ticks, which must never go back. Every priority calls it. A 32-bit counter wraps after minutes and must
 * be extended to 64 bits: test/packets_main.c shows how. The clock must record nothing itself: the writer that asks for
 * the time is in the middle of an event, and what else it is given then is lost without being counted.
 */
typedef uint64_t (*tracebuf_packets_clock)(void);

/*
 * Takes bytes of a trace, as many as it can, and returns how many; less than 0 ends the export. If it returns 0 it is
 * called again until it takes some, so it must end the export if, say, a host's disk is full. Called within it,
 * tracebuf_packets_drain does nothing, and tracebuf_packets_export returns TRACEBUF_PACKETS_BUSY.
 */
typedef int32_t (*tracebuf_packets_write)(void *context, const uint8_t *bytes, size_t size);

enum {
    TRACEBUF_PACKETS_OK = 0,
    TRACEBUF_PACKETS_FOUND = 1,      /* the region holds what was recorded before a reset: export it at once */
    TRACEBUF_PACKETS_TOO_SMALL = -1, /* the region is smaller than 1.2 KiB, or it or the clock is NULL */
    TRACEBUF_PACKETS_TWICE = -2,     /* called before, or within another call, by an interrupt or another task */
    TRACEBUF_PACKETS_NOT_YET = -3,   /* tracebuf_packets_init was not called */
    TRACEBUF_PACKETS_WRITE = -4,     /* the writing function failed, or is NULL */
    TRACEBUF_PACKETS_BUSY = -5,      /* called within an export, or while another task is exporting */
};

/*
 * Starts the recorder over a region of memory, once. The region may be as small as 1.2 KiB, but some 4 KiB are needed
 * for events to be decoded once older ones were overwritten: names and clock must be in it too. Times in the trace are
 * in microseconds; with 0 ticks a second all of them are 0.
 *
 * In memory that start-up code does not clear, what an earlier start recorded is found again, stays readable, and is
 * gradually overwritten. Its times are not this start's, and its timelines have the same names: export it into a file
 * of its own, before anything is recorded.
 */
int32_t tracebuf_packets_init(void *region, size_t size, uint64_t ticks_per_second, tracebuf_packets_clock clock);

/* Makes a timeline for one priority. NULL if there are too many, or before the start: other calls ignore NULL. */
tracebuf_packets_writer *tracebuf_packets_writer_new(const char *name);

/* Makes a counter, for all writers; two of one name are two. NULL if there are too many: other calls ignore NULL. */
tracebuf_packets_counter *tracebuf_packets_counter_new(const char *name);

/*
 * A slice ends with the call of tracebuf_packets_slice_end that belongs to its begin. Of a slice whose begin is lost,
 * because shared memory was full, the end is left out, and an end that is lost is made up for before the writer's next
 * begin or end: so slices stay within each other. Slices deeper than 32 count as begun.
 */
void tracebuf_packets_slice_begin(tracebuf_packets_writer *writer, const char *name);
void tracebuf_packets_slice_end(tracebuf_packets_writer *writer);
void tracebuf_packets_instant(tracebuf_packets_writer *writer, const char *name);
void tracebuf_packets_count(tracebuf_packets_writer *writer, tracebuf_packets_counter *counter, int64_t value);

/*
 * Completes the writer's current chunk of shared memory, so that the next tracebuf_packets_drain moves it. Call it at
 * the writer's priority, after rare events: otherwise they wait until the chunk is full, or for an export, and
 * meanwhile the ring may overwrite the beginning of the last one, if that lies in the chunk before. Do not call it
 * after each event: a chunk counts as full however little it contains, and names and clock are written anew after a
 * certain number of chunks.
 */
void tracebuf_packets_flush(tracebuf_packets_writer *writer);

/* Moves what the writers have completed into the ring. Call it at the lowest priority, often enough. */
void tracebuf_packets_drain(void);

/*
 * Sets what calls for tracebuf_packets_drain, or NULL for nothing: `wake` is called, at any priority that traces, when
 * half of shared memory waits to be moved, and when a writer is flushed. It is also called at once, and at the end of
 * each export, for what may be waiting then. It must be short, and must neither wait nor call anything declared here:
 * it pends the lowest-priority interrupt, which drains, such as PendSV (whose priority must be set: after a reset all
 * have the highest), or gives the semaphore of the task that drains. That is in time for four writers in a region of 12
 * KiB or more, unless interrupts write very much at once. In one of 4 KiB it is in time for what tasks or the main loop
 * write, but some events of interrupts are dropped, and counted: the fewer writers, the fewer events. In smaller
 * regions, or without `wake`, the drain must run by itself.
 */
void tracebuf_packets_on_work(void (*wake)(void));

/*
 * Events that were dropped since tracebuf_packets_init because shared memory was full: tracebuf_packets_drain ran too
 * seldom. May be called at any priority. Events that were already partly written are counted only in the trace, which
 * counts these too.
 */
uint32_t tracebuf_packets_dropped(void);

/*
 * Sends everything in the ring that was not sent before, as a trace file, waiting for the line. Call it at the priority
 * of tracebuf_packets_drain or below it, such as in the main loop if an interrupt drains: a drain that interrupts it
 * does nothing, and is called for again at its end. Recording goes on, and what is recorded is drained after each
 * packet; from writers that are faster than the line it takes no more than fills the ring once, and nothing is drained
 * while it sends the rest. What is recorded after it can be read without this file; an interrupt just at its end may be
 * shown without its name. What was overwritten before the line took it is counted in the trace, and TRACEBUF_PACKETS_OK
 * is returned nevertheless.
 *
 * After TRACEBUF_PACKETS_WRITE the file may end with half a packet. The next export first sends that packet whole, then
 * everything after it: if the function had written nothing, nothing is missing there. Otherwise names and clock of what
 * was already in the ring are in the file that ended early, and the next file is readable only from what was recorded
 * since; without the half packet the two make one file. A reset within an export, or between a failed one and the next,
 * costs only the packet that was being written; what is found after the reset needs that file in the same way.
 */
int32_t tracebuf_packets_export(tracebuf_packets_write write, void *context);

#ifdef __cplusplus
}
#endif

#endif
