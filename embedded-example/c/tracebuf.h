/*
 * tracebuf for firmware in C: a trace for https://ui.perfetto.dev, recorded in place.
 *
 *     static _Alignas(8) uint8_t region[TRACEBUF_REGION_SIZE] __attribute__((section(".uninit")));
 *     static tracebuf_writer main_loop;
 *     tracebuf_rtt _SEGGER_RTT;
 *
 *     tracebuf_init(region, sizeof region, 64000000, read_cycles);
 *     tracebuf_writer_init(&main_loop, "main loop");
 *     for (;;) {
 *         tracebuf_begin(&main_loop, "step");
 *         tracebuf_count(&main_loop, "level", step());
 *         tracebuf_end(&main_loop);
 *         tracebuf_rtt_poll(&_SEGGER_RTT);
 *     }
 *
 * On the host, `tracebuf receive` makes a trace of what the probe reads, or of what tracebuf_stream_poll gave to any
 * other line; `tracebuf recover` of a dump of memory. What was finished before a reset is in it, if the region is in an
 * output section `.uninit (NOLOAD)` that start-up code does not clear: test/link.ld has one.
 *
 * Link libtracebuf_c.a: `cargo build --profile small -p tracebuf-c --target thumbv7em-none-eabihf` builds it into
 * target/thumbv7em-none-eabihf/small; for a Cortex-M0 or M0+ the target is thumbv6m-none-eabi. Use --gc-sections: what
 * is not called takes no flash. tracebuf_freertos.h has FreeRTOS' trace macros over these functions, and
 * tracebuf_packets.h is for devices that look into their own traces.
 *
 * Nothing here allocates, waits or panics. No failure needs a reaction: what does not fit is dropped and counted in the
 * trace. NULL, and what was never made, is ignored everywhere. Interrupts are masked only where it says so, and on
 * Armv6-M for atomic instructions.
 *
 * Names are string literals, or other memory that never changes: a name is copied once and known by its address after
 * that. Texts and the names of writers, tracks and tasks are copied each time, so they may lie anywhere. All are UTF-8
 * and end with a zero; what is not UTF-8 (such as Latin-1 with umlauts) is "?". The first 64 bytes are kept.
 */
#ifndef TRACEBUF_H
#define TRACEBUF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sizes: 64 names with 4 * 128 bytes of text, tracks and tasks among them; a ring of 32 chunks of 256 bytes. If others
 * are wanted, build the library with TRACEBUF_NAMES, TRACEBUF_TEXT or TRACEBUF_CHUNKS in the environment, and define
 * them for this header, too. Names (up to 1,024) and chunks (4 to 32,768) are powers of two. TRACEBUF_TIMER_BITS is
 * only for the library: 16 to 32, the latter if nothing is said.
 */
#ifndef TRACEBUF_NAMES
#define TRACEBUF_NAMES 64
#endif
#ifndef TRACEBUF_TEXT
#define TRACEBUF_TEXT 128
#endif
#ifndef TRACEBUF_CHUNKS
#define TRACEBUF_CHUNKS 32
#endif

/* Bytes of a region. */
#define TRACEBUF_REGION_SIZE (64 + 8 * (TRACEBUF_NAMES) + 4 * (TRACEBUF_TEXT) + 256 * (TRACEBUF_CHUNKS))

enum {
    TRACEBUF_OK = 0,
    TRACEBUF_FOUND = 1,    /* the region holds what was recorded before a reset: it is sent first */
    TRACEBUF_WRONG = -1,   /* NULL, not aligned to 4 bytes, or a region smaller than the library's sizes need */
    TRACEBUF_TWICE = -2,   /* there is one already, or an interrupt came while it was being made */
    TRACEBUF_NOT_YET = -3, /* tracebuf_init was not called, or failed */
};

/*
 * A timer that counts up and wraps, at a frequency that does not change. Every priority reads it, so that must be quick
 * and safe to interrupt. Bits above TRACEBUF_TIMER_BITS are zero. Something must record, poll, or call
 * tracebuf_keep_time in each 3/8 of its period.
 */
typedef uint32_t (*tracebuf_timer)(void);

/* Whoever writes: in zeroed memory, as a static is. It must stay where it is. */
typedef struct tracebuf_writer { uint32_t opaque[8]; } tracebuf_writer;

/* Another track than a writer's own: in zeroed memory. */
typedef struct tracebuf_track { uint32_t opaque[2]; } tracebuf_track;

/* A control block that debug probes look for, and its buffer of 1,024 bytes: in zeroed static memory. */
typedef struct tracebuf_rtt { uint32_t opaque[12 + 256]; } tracebuf_rtt;

/* An argument of an event: a text, or if that is NULL, the number. Without a name, none. */
typedef struct tracebuf_arg {
    const char *name;
    const char *text;
    int32_t number;
} tracebuf_arg;

/*
 * Details of an event. Those with the same flow, unless it is 0, are joined by arrows. What does not fit into 96 bytes
 * is left out: a flow or a number takes 8, a text 4 and its bytes.
 *
 *     tracebuf_instant_with(&w, "door", &(tracebuf_details){ .flow = 7, .args = { { .name = "open", .number = 1 } } });
 */
typedef struct tracebuf_details {
    uint32_t flow;
    tracebuf_arg args[2];
} tracebuf_details;

/*
 * Starts the recorder over a region, once. What an earlier start recorded there stays, if sizes and frequency are the
 * same; the host makes a trace of its own of each start. Cost: some 20 instructions for each chunk and name.
 */
int32_t tracebuf_init(void *region, size_t size, uint32_t ticks_per_second, tracebuf_timer timer);

/* Keeps the time, where nothing records or polls for long. */
void tracebuf_keep_time(void);

/* Ticks of the timer, in 64 bits. 0 before tracebuf_init. */
uint64_t tracebuf_now(void);

/* Events that found no place since the region was laid out, which is before an earlier start if it was found. */
uint32_t tracebuf_dropped(void);

/*
 * Makes a writer with a track of that name. Each priority, core or task that records has its own, and passes no other's
 * to any call. A start may have 63; what those beyond record is counted as dropped. A writer keeps a chunk of the ring,
 * so those of tasks that end are ended, and may be made again then.
 */
int32_t tracebuf_writer_init(tracebuf_writer *writer, const char *name);
void tracebuf_writer_end(tracebuf_writer *writer);

/*
 * Slices, within each other, and instants. An end ends the slice that was begun last. 4 bytes each. On a Cortex-M4 an
 * end takes some 40 instructions, a begin or a counter's value 60, however long the name is once it is known.
 */
void tracebuf_begin(tracebuf_writer *writer, const char *name);
void tracebuf_end(tracebuf_writer *writer);
void tracebuf_instant(tracebuf_writer *writer, const char *name);
void tracebuf_begin_with(tracebuf_writer *writer, const char *name, const tracebuf_details *details);
void tracebuf_instant_with(tracebuf_writer *writer, const char *name, const tracebuf_details *details);

/* Values of counters, which are known by their names; 8 bytes, or 12 for 64 bits. */
void tracebuf_count(tracebuf_writer *writer, const char *counter, int32_t value);
void tracebuf_count_i64(tracebuf_writer *writer, const char *counter, int64_t value);
void tracebuf_count_f32(tracebuf_writer *writer, const char *counter, float value);

/* A line of a log under a tag, which is a name. Priorities are Android's: 4 information, 5 a warning, 6 an error. */
void tracebuf_log(tracebuf_writer *writer, uint32_t priority, const char *tag, const char *text);

/* Another track, for events of a device, say. Those with the same name and number (of 24 bits) are one. */
int32_t tracebuf_track_init(tracebuf_track *track, const char *name, uint32_t number);
void tracebuf_begin_on(tracebuf_writer *writer, const tracebuf_track *track, const char *name);
void tracebuf_end_on(tracebuf_writer *writer, const tracebuf_track *track);
void tracebuf_instant_on(tracebuf_writer *writer, const tracebuf_track *track, const char *name);

/*
 * Fills a buffer with what is to go out next over whatever line, and returns how many bytes that is; fewer than asked
 * for: there is no more now. Call it as often as the line has room, and four times a second at least. Writers are never
 * stopped; what was overwritten before it could be sent shows as a gap. One caller at a time: another gets 0. It takes
 * some 90 instructions a byte, and the library 500 bytes of RAM.
 */
size_t tracebuf_stream_poll(void *buffer, size_t size);

/* With the next poll, also what has not filled a chunk goes out: before sleep, or at an end. */
void tracebuf_stream_flush(void);

/*
 * The same into memory that a debug probe reads, whether one is there or not; returns how many bytes went there. A
 * debugger finds the block by its id in RAM, or sooner if its symbol is _SEGGER_RTT. Poll either this or a line: each
 * byte goes out once.
 */
size_t tracebuf_rtt_poll(tracebuf_rtt *rtt);

/*
 * Tasks, of any scheduler. Each has a track of its name with slices `runs` and instants `created`, `ready` and `ended`.
 * tracebuf_tasks_init makes a writer for them; calls before it are ignored. All these may be called at any priority:
 * interrupts are masked for the length of an event. In an NMI, or a fault, that has come within one, they are ignored
 * and tracebuf_tasks_lost counts them. `task` is any number that no other task has at the time, such as its control
 * block's address. Of 32 tasks, interrupts and schedulers the tracks are known; of more, events go to a track `others`.
 */
int32_t tracebuf_tasks_init(void);
uint32_t tracebuf_tasks_lost(void);
void tracebuf_task_created(uint32_t task, const char *name);
void tracebuf_task_ended(uint32_t task);
void tracebuf_task_ready(uint32_t task);

/* The task runs in place of the one that ran; or none does. Of a task that runs already nothing is recorded. */
void tracebuf_task_switched(uint32_t task);
void tracebuf_task_none(void);

/* For schedulers whose tasks go on within one another: a task interrupts the one that runs, until it ends. */
void tracebuf_task_begins(uint32_t task);
void tracebuf_task_ends(void);

/* A scheduler, by any number, has nothing to run, or something again: a slice `idle` on a track `executor`. */
void tracebuf_task_idle(uint32_t scheduler);
void tracebuf_task_busy(uint32_t scheduler);

/* The task that runs does something: an instant on its track, and a counter's value, from whatever runs. */
void tracebuf_task_instant(const char *name);
void tracebuf_task_count(const char *counter, int64_t value);

/* An interrupt, by its number: a slice on a track of its own. */
void tracebuf_isr_enter(uint32_t number);
void tracebuf_isr_exit(uint32_t number);

#ifdef __cplusplus
}
#endif

#endif
