/*
 * tracebuf for C firmware: a trace for https://ui.perfetto.dev in a static region.
 *
 *     static _Alignas(8) uint8_t region[8192] __attribute__((section(".uninit")));
 *
 *     if (tracebuf_init(region, sizeof region, 25000000, read_clock) == TRACEBUF_FOUND)
 *         tracebuf_export(write_before, NULL);
 *     tracebuf_writer *main_loop = tracebuf_writer_new("main loop");
 *     for (;;) {
 *         tracebuf_slice_begin(main_loop, "step");
 *         step();
 *         tracebuf_slice_end(main_loop);
 *         tracebuf_drain();
 *     }
 *
 * The linker script needs an output section `.uninit (NOLOAD)` in RAM that start-up code does not clear: test/link.ld
 * has one. Without NOLOAD the region is a part of the image, and what was recorded before a reset may be overwritten.
 *
 * Link libtracebuf_c.a: `cargo build --profile small -p tracebuf-c --target thumbv7em-none-eabihf` builds it for size
 * into target/thumbv7em-none-eabihf/small; for a Cortex-M0 or M0+ the target is thumbv6m-none-eabi. With it
 * test/main.c takes 48 KB of flash; with that of `--release`, built for speed, 65 KB. Beside the region it takes 3.7
 * KB of RAM, however few writers and counters there are, and 1.2 KB of stack, 3.8 KB in an export. Where there is less
 * than that the stack grows into what lies below, perhaps the region.
 *
 * Each priority (main loop, each interrupt) has a writer of its own and calls nothing with another's. Names are string
 * literals: their memory must stay as it is. They are UTF-8; one that is not (such as Latin-1 with umlauts) appears as
 * "?". Of a name of more than 80 bytes the beginning is kept, up to a whole character. Nothing here allocates, and only
 * an export waits; nothing fails that a program would have to react to: what does not fit is dropped and counted in the
 * trace.
 */
#ifndef TRACEBUF_H
#define TRACEBUF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writers and counters that there can be. */
#define TRACEBUF_WRITERS 4
#define TRACEBUF_COUNTERS 8

typedef struct tracebuf_writer tracebuf_writer;
typedef struct tracebuf_counter tracebuf_counter;

/*
 * The time in ticks, which never goes back. Every priority calls it. A counter of 32 bits begins anew after minutes and
 * has to be extended to 64: test/main.c shows how.
 */
typedef uint64_t (*tracebuf_clock)(void);

/*
 * Takes bytes of a trace, as many as it can, and returns how many; less than 0 ends the export. With 0 it is called
 * again until it takes some, so that a host's full disk, say, has to end it. Called in it, tracebuf_drain does nothing,
 * and tracebuf_export returns TRACEBUF_BUSY.
 */
typedef int32_t (*tracebuf_write)(void *context, const uint8_t *bytes, size_t size);

enum {
    TRACEBUF_OK = 0,
    TRACEBUF_FOUND = 1,      /* what was recorded before a reset is in the region: export it at once */
    TRACEBUF_TOO_SMALL = -1, /* the region is below 1.2 KiB; or it or the clock is NULL */
    TRACEBUF_TWICE = -2,     /* called before, or within another call, by an interrupt or another task */
    TRACEBUF_NOT_YET = -3,   /* tracebuf_init was not called */
    TRACEBUF_WRITE = -4,     /* the function that writes said so, or is NULL */
    TRACEBUF_BUSY = -5,      /* called within an export, or while another task has one */
};

/*
 * Starts the recorder over a region of memory, once. The region may have 1.2 KiB, but some 4 KiB are needed for events
 * to be decoded when older ones were overwritten: names and clock have to be in it too.
 *
 * With memory that start-up code does not clear, what a start before this one recorded is found again, stays
 * readable, and is overwritten by and by. Its times are not this start's, and its timelines have the same names:
 * export it into a file of its own, before anything is recorded.
 */
int32_t tracebuf_init(void *region, size_t size, uint64_t ticks_per_second, tracebuf_clock clock);

/* A timeline for one priority. NULL when there are too many, or before tracebuf_init: other calls ignore NULL. */
tracebuf_writer *tracebuf_writer_new(const char *name);

/* A counter, for all writers; two of one name are two. NULL when there are too many: other calls ignore NULL. */
tracebuf_counter *tracebuf_counter_new(const char *name);

void tracebuf_slice_begin(tracebuf_writer *writer, const char *name);
void tracebuf_slice_end(tracebuf_writer *writer);
void tracebuf_instant(tracebuf_writer *writer, const char *name);
void tracebuf_count(tracebuf_writer *writer, tracebuf_counter *counter, int64_t value);

/*
 * Completes the chunk of shared memory that the writer is in, so that the next tracebuf_drain moves it. At the
 * writer's priority, after rare things: otherwise they wait until the chunk is full, or for an export, and meanwhile
 * the ring may overwrite the beginning of the last one, if that lies in the chunk before. Not after each event: a
 * chunk counts as full however little is in it, and each so many of them names and clock are written anew.
 */
void tracebuf_flush(tracebuf_writer *writer);

/* Moves what the writers have completed into the ring. At the lowest priority, often enough. */
void tracebuf_drain(void);

/*
 * What calls for tracebuf_drain, or NULL for nothing: `wake` is called, at any priority that traces, when half of
 * shared memory waits to be moved, and when a writer is flushed. It must be short, and neither wait nor call anything
 * of this: it pends the interrupt of the lowest priority that drains, such as PendSV (whose priority has to be set:
 * after a reset it is the highest, as all are), or gives the semaphore of the task that does. That is in time for four
 * writers in a region of 12 KiB and more, unless interrupts write very much at once. In one of 4 KiB it is for what
 * tasks or the main loop write, but of interrupts some events are dropped, and counted: fewer the fewer writers there
 * are. In smaller ones, or without it, the drain has to come by itself.
 */
void tracebuf_on_work(void (*wake)(void));

/*
 * Events that were dropped since tracebuf_init because shared memory was full: tracebuf_drain came too seldom. At any
 * priority. Those of which a part was written already are counted in the trace only, where these are too.
 */
uint32_t tracebuf_dropped(void);

/*
 * Sends all that the ring holds and was not sent before, as a trace file, waiting for the line. At the priority of
 * tracebuf_drain or below it, such as in the main loop when the drain is an interrupt's: a drain that interrupts it
 * does nothing, and is called for again at its end. Recording goes on, and what is recorded is drained after each
 * packet; from writers that are faster than the line it takes no more than fills the ring once, and while it sends the
 * rest nothing is drained. What is recorded after it can be read without this file; an interrupt just at its end may be
 * there without its name. What was overwritten before the line took it is counted in the trace; TRACEBUF_OK is returned
 * all the same.
 *
 * After TRACEBUF_WRITE the file may end with half a packet. The next export sends that one first, whole, and all behind
 * it: if the function had written nothing, nothing is missing there. Otherwise names and clock of what was in the ring
 * already are in the file that has ended early, and the next one can be read from what was recorded since; without the
 * half packet the two make one file. A reset within an export, or between one that failed and the next, costs the packet
 * that was being written, and no other; what is found after it needs that file in the same way.
 */
int32_t tracebuf_export(tracebuf_write write, void *context);

#ifdef __cplusplus
}
#endif

#endif
