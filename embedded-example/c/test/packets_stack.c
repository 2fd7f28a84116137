/*
 * How much stack the calls take: no more than tracebuf_packets.h says, neither in the first start nor in the one after
 * a reset, which finds what the first has recorded.
 */
#include "start.h"
#include "tracebuf_packets.h"

/* In bytes. What tracebuf_packets.h says, as far as its rounding goes: 1.2 KB, and 2.9 KB. */
#define RECORDING 1249
#define START 2949
#define EXPORT 2949

#define PAINTED_WORDS 2000
#define PAINT 0xA5A5A5A5
#define RESET_CONTROL (*(volatile uint32_t *)0xE000ED0C)

static _Alignas(8) uint8_t region[8192] __attribute__((section(".uninit")));

static tracebuf_packets_writer *writer;
static tracebuf_packets_counter *counter;
static int32_t started;

static uint64_t clock(void)
{
    static uint64_t calls;
    return calls++;
}

void systick(void) {}
void pendsv(void) {}

static int32_t write_all(void *context, const uint8_t *bytes, size_t size)
{
    (void)context, (void)bytes;
    return (int32_t)size;
}

static void start(void)
{
    started = tracebuf_packets_init(region, sizeof region, 1000000, clock);
    if (started < 0)
        end(0);
}

static void record(void)
{
    writer = tracebuf_packets_writer_new("main loop");
    counter = tracebuf_packets_counter_new("steps");
    for (int32_t step = 0; step < 2000; step++) {
        tracebuf_packets_slice_begin(writer, "step");
        tracebuf_packets_count(writer, counter, step);
        tracebuf_packets_instant(writer, "instant");
        tracebuf_packets_slice_end(writer);
        tracebuf_packets_drain();
    }
    tracebuf_packets_flush(writer);
}

static void export(void)
{
    if (tracebuf_packets_export(write_all, NULL) != TRACEBUF_PACKETS_OK)
        end(0);
}

/* Bytes below this function's frame that a call leaves other than they were. */
__attribute__((noinline)) static uint32_t stack_of(void (*call)(void))
{
    volatile uint32_t *const top = __builtin_frame_address(0);
    volatile uint32_t *lowest = top - PAINTED_WORDS;
    /* Not what this function itself has there. */
    for (volatile uint32_t *word = lowest; word < top - 16; word++)
        *word = PAINT;
    call();
    while (*lowest == PAINT)
        lowest++;
    return (uint32_t)(top - lowest) * sizeof *top;
}

void run(void)
{
    const uint32_t for_start = stack_of(start);
    if (for_start > (started == TRACEBUF_PACKETS_FOUND ? START : RECORDING) || stack_of(record) > RECORDING)
        end(0);
    if (started != TRACEBUF_PACKETS_FOUND) {
        RESET_CONTROL = 0x05FA0004;
        for (;;) {
        }
    }
    end(stack_of(export) <= EXPORT);
}
