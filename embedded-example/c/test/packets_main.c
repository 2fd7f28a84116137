/* Firmware in C that traces itself: a main loop and the SysTick interrupt, on the MPS2 AN386 in QEMU. */
#include "start.h"
#include "tracebuf_packets.h"

#define STEPS 100

static _Alignas(8) uint8_t region[64 * 1024] __attribute__((section(".uninit")));

/* The board's 32-bit timer at 25 MHz, counting down. */
#define TIMER_VALUE (*(volatile uint32_t *)0x40002004)
#define TIMER_CONTROL (*(volatile uint32_t *)0x40002008)
#define SYSTICK_CONTROL (*(volatile uint32_t *)0xE000E010)
#define SYSTICK_RELOAD (*(volatile uint32_t *)0xE000E014)
#define INTERRUPT_CONTROL (*(volatile uint32_t *)0xE000ED04)
#define SYSTEM_PRIORITIES (*(volatile uint32_t *)0xE000ED20)

/* 79 bytes, and an o with two dots, which has two. */
#define LONG_NAME "0123456789012345678901234567890123456789012345678901234567890123456789012345678\xC3\xB6"

/*
 * It begins anew every 172 s, so it is extended; somebody has to look once in that time. Every priority looks, so
 * interrupts are masked meanwhile.
 */
static uint64_t clock(void)
{
    static uint32_t laps, last;
    uint32_t masked;
    __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(masked) : : "memory");
    uint32_t now = ~TIMER_VALUE;
    laps += now < last;
    last = now;
    uint64_t time = (uint64_t)laps << 32 | now;
    __asm__ volatile("msr primask, %0" : : "r"(masked) : "memory");
    return time;
}

static tracebuf_packets_writer *interrupt_writer;
static tracebuf_packets_counter *ticks;
static volatile uint32_t tick_count;

/* What an interrupt gets that starts the recorder while this is being done. */
static volatile int32_t in_between = TRACEBUF_PACKETS_OK;
static volatile uint32_t starting;

void systick(void)
{
    if (starting) {
        starting = 0;
        SYSTICK_CONTROL = 0; /* once */
        in_between = tracebuf_packets_init(region, sizeof region, 25000000, clock);
        return;
    }
    tracebuf_packets_slice_begin(interrupt_writer, "tick");
    tick_count++;
    tracebuf_packets_count(interrupt_writer, ticks, tick_count);
    tracebuf_packets_slice_end(interrupt_writer);
}

static void pend_drain(void) { INTERRUPT_CONTROL = 1 << 28; }

void pendsv(void) { tracebuf_packets_drain(); }

static int32_t write_file(void *context, const uint8_t *bytes, size_t size)
{
    /* The recorder is in use. */
    tracebuf_packets_drain();
    if (tracebuf_packets_export(write_file, context) != TRACEBUF_PACKETS_BUSY)
        end(0);
    const uint32_t parameters[3] = { *(uint32_t *)context, (uint32_t)bytes, size };
    const uint32_t left = host(5, parameters); /* returns how many were not written */
    /* The disk is full: asked again, it would take none either. */
    return left == size ? -1 : (int32_t)(size - left);
}

/* A line so slow that there are ticks meanwhile. */
static int32_t write_slowly(void *context, const uint8_t *bytes, size_t size)
{
    static uint32_t calls;
    (void)context, (void)bytes;
    if (++calls % 4 == 0)
        systick();
    return (int32_t)size;
}

static int32_t write_while_memory_fills(void *context, const uint8_t *bytes, size_t size)
{
    (void)context, (void)bytes;
    for (int32_t event = 0; event < 40; event++) {
        systick();
        tracebuf_packets_flush(interrupt_writer);
    }
    return (int32_t)size;
}

static int32_t write_nothing(void *context, const uint8_t *bytes, size_t size)
{
    (void)context, (void)bytes, (void)size;
    return -1;
}

static int32_t export_to(const char *name, uint32_t length)
{
    const uint32_t open[3] = { (uint32_t)name, 5 /* "wb" */, length };
    uint32_t file = (uint32_t)host(1, open);
    int32_t sent = tracebuf_packets_export(write_file, &file);
    host(2, &file);
    return sent;
}

void run(void)
{
    if (tracebuf_packets_export(write_file, 0) != TRACEBUF_PACKETS_NOT_YET
        || tracebuf_packets_writer_new("early") != NULL)
        end(0);
    if (tracebuf_packets_init(region, 64, 25000000, clock) != TRACEBUF_PACKETS_TOO_SMALL
        || tracebuf_packets_init(NULL, sizeof region, 25000000, clock) != TRACEBUF_PACKETS_TOO_SMALL
        || tracebuf_packets_init(region, sizeof region, 25000000, NULL) != TRACEBUF_PACKETS_TOO_SMALL)
        end(0);
    TIMER_CONTROL = 0x82; /* on, 32 bits */
    /* PendSV, which drains, has the lowest priority: below SysTick, which traces. */
    SYSTEM_PRIORITIES |= 0xFF << 16;
    starting = 1;
    SYSTICK_RELOAD = 25 * 10; /* 10 µs: a start takes longer */
    SYSTICK_CONTROL = 7;
    if (tracebuf_packets_init(region, sizeof region, 25000000, clock) != TRACEBUF_PACKETS_OK || starting)
        end(0);
    if (in_between != TRACEBUF_PACKETS_TWICE)
        end(0);
    if (tracebuf_packets_init(region, sizeof region, 25000000, clock) != TRACEBUF_PACKETS_TWICE)
        end(0);
    tracebuf_packets_writer *main_loop = tracebuf_packets_writer_new("main loop");
    interrupt_writer = tracebuf_packets_writer_new("SysTick");
    tracebuf_packets_counter *squares = tracebuf_packets_counter_new("squares");
    ticks = tracebuf_packets_counter_new("ticks");
    SYSTICK_RELOAD = 25 * 300; /* 300 µs */
    SYSTICK_CONTROL = 7;

    tracebuf_packets_instant(main_loop, "start");
    tracebuf_packets_flush(main_loop);
    for (int32_t step = 0; step < STEPS; step++) {
        tracebuf_packets_slice_begin(main_loop, "step");
        tracebuf_packets_slice_begin(main_loop, "compute");
        for (volatile int32_t i = 0; i < 200; i++) {
        }
        tracebuf_packets_slice_end(main_loop);
        tracebuf_packets_count(main_loop, squares, (int64_t)step * step - 50);
        tracebuf_packets_slice_end(main_loop);
        tracebuf_packets_drain();
    }
    SYSTICK_CONTROL = 0;
    /* Null is ignored everywhere. */
    tracebuf_packets_slice_begin(NULL, "nowhere");
    tracebuf_packets_count(main_loop, NULL, 1);
    tracebuf_packets_flush(NULL);
    /* However long a name is, and wherever in a chunk, it costs no event. */
    for (int32_t length = 1; length <= 40; length++) {
        static const char spaces[] = "                                        ";
        tracebuf_packets_instant(main_loop, spaces + 40 - length);
        tracebuf_packets_instant(main_loop, LONG_NAME LONG_NAME LONG_NAME);
        tracebuf_packets_instant(main_loop, "caf\xE9");
        tracebuf_packets_drain();
    }
    tracebuf_packets_instant(main_loop, "end");

    static const char first[] = "c.pftrace", second[] = "c-later.pftrace";
    if (export_to(first, sizeof first - 1) != TRACEBUF_PACKETS_OK
        || tracebuf_packets_export(NULL, NULL) != TRACEBUF_PACKETS_WRITE)
        end(0);
    /* What comes after an export is a trace of its own. */
    tracebuf_packets_instant(main_loop, "later");
    systick();
    /* An export that cannot begin costs nothing. */
    if (tracebuf_packets_export(write_nothing, NULL) != TRACEBUF_PACKETS_WRITE
        || export_to(second, sizeof second - 1) != TRACEBUF_PACKETS_OK)
        end(0);
    /* Recording goes on while an export waits, longer than shared memory has room for. */
    for (int32_t step = 0; step < 10 * STEPS; step++) {
        tracebuf_packets_count(main_loop, squares, step);
        tracebuf_packets_drain();
    }
    if (tracebuf_packets_export(write_slowly, NULL) != TRACEBUF_PACKETS_OK || tracebuf_packets_dropped() != 0)
        end(0);
    tracebuf_packets_instant(main_loop, "lost");
    if (tracebuf_packets_export(write_nothing, NULL) != TRACEBUF_PACKETS_WRITE)
        end(0);
    /* A drain that comes when it is called for, the first time when shared memory is full already. */
    for (int32_t step = 0; step < 40; step++) {
        tracebuf_packets_instant(main_loop, "early");
        tracebuf_packets_flush(main_loop);
    }
    const uint32_t dropped = tracebuf_packets_dropped();
    tracebuf_packets_on_work(pend_drain);
    for (int32_t step = 0; step < 10 * STEPS; step++)
        tracebuf_packets_count(main_loop, squares, step);
    if (dropped == 0 || tracebuf_packets_dropped() != dropped)
        end(0);
    /* And one that an export kept from its work, when no writer has a chunk to complete. */
    tracebuf_packets_flush(main_loop);
    if (tracebuf_packets_export(write_while_memory_fills, NULL) != TRACEBUF_PACKETS_OK)
        end(0);
    const uint32_t then = tracebuf_packets_dropped();
    for (int32_t step = 0; step < 10 * STEPS; step++)
        tracebuf_packets_count(main_loop, squares, step);
    if (then == dropped || tracebuf_packets_dropped() != then)
        end(0);
    tracebuf_packets_on_work(NULL);
    /* Each flush completes a chunk. There are 32, and no drain. */
    for (int32_t step = 0; step < 40; step++)
        tracebuf_packets_instant(main_loop, "short");
    if (tracebuf_packets_dropped() != then)
        end(0);
    for (int32_t step = 0; step < 40; step++) {
        tracebuf_packets_instant(main_loop, "short");
        tracebuf_packets_flush(main_loop);
    }
    if (tracebuf_packets_dropped() == then)
        end(0);
    /* Of a slice whose begin is lost there is no end either. */
    tracebuf_packets_slice_begin(main_loop, "lost");
    const uint32_t with_begin = tracebuf_packets_dropped();
    tracebuf_packets_slice_end(main_loop);
    if (tracebuf_packets_dropped() != with_begin)
        end(0);
    /* One that has begun ends, when there is room, with those whose ends are lost. */
    tracebuf_packets_drain();
    tracebuf_packets_slice_begin(main_loop, "whole");
    for (int32_t step = 0; step < 40; step++) {
        tracebuf_packets_instant(main_loop, "short");
        tracebuf_packets_flush(main_loop);
    }
    const uint32_t before_end = tracebuf_packets_dropped();
    tracebuf_packets_slice_end(main_loop);
    end(tracebuf_packets_dropped() == before_end + 1 && tick_count > 10);
}
