/*
 * Instructions of the calls of tracebuf.h on a Cortex-M4, or a Cortex-M0, in QEMU: a line for each, its name and how
 * many, the median of some. SysTick counts them, which QEMU advances by the instruction; it is the recorder's timer too.
 */
#include "start.h"
#include "tracebuf.h"

#define SYSTICK_CONTROL (*(volatile uint32_t *)0xE000E010)
#define SYSTICK_RELOAD (*(volatile uint32_t *)0xE000E014)
#define SYSTICK_VALUE (*(volatile uint32_t *)0xE000E018)
#define FULL 0xFFFFFFu

#define TIMES 201

/* Picoseconds of a tick and of an instruction, as QEMU is told. */
#ifdef MICROBIT
#define FREQUENCY 16000000
#define TICK 62500u
#define INSTRUCTION 64000u
#else
#define FREQUENCY 25000000
#define TICK 40000u
#define INSTRUCTION 32000u
#endif

static _Alignas(8) uint8_t region[TRACEBUF_REGION_SIZE] __attribute__((section(".uninit")));
static tracebuf_writer writer;

static uint32_t timer(void) { return ~SYSTICK_VALUE & FULL; }

void pendsv(void) {}
void systick(void) {}

static void print(const char *name, uint32_t number)
{
    char line[64], digits[10];
    int at = 0, count = 0;
    for (; name[at]; at++)
        line[at] = name[at];
    line[at++] = ' ';
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count)
        line[at++] = digits[--count];
    line[at++] = '\n';
    line[at] = 0;
    host(0x04, line);
}

static void nothing(void) {}
static void begin(void) { tracebuf_begin(&writer, "a name of any length"); }
static void end_slice(void) { tracebuf_end(&writer); }
static void instant(void) { tracebuf_instant(&writer, "an instant"); }
static void count(void) { tracebuf_count(&writer, "a counter", 1234); }
static void count_i64(void) { tracebuf_count_i64(&writer, "another counter", 1ll << 40); }

/* The median of what a call takes, with what calls it. */
static uint32_t measure(void (*work)(void))
{
    static uint32_t counts[TIMES];
    for (int i = 0; i < TIMES; i++) {
        const uint32_t from = SYSTICK_VALUE;
        work();
        const uint32_t ticks = (from - SYSTICK_VALUE) & FULL;
        int at = i;
        for (; at > 0 && counts[at - 1] > ticks; at--)
            counts[at] = counts[at - 1];
        counts[at] = ticks;
    }
    return (uint32_t)(((uint64_t)counts[TIMES / 2] * TICK + INSTRUCTION / 2) / INSTRUCTION);
}

/* The calls themselves, with their arguments and with what brings them back. */
static void cost(const char *name, void (*work)(void)) { print(name, measure(work) - measure(nothing)); }

void run(void)
{
    SYSTICK_RELOAD = FULL;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = 5; /* on, by the core's clock */
    if (tracebuf_init(region, sizeof region, FREQUENCY, timer) != TRACEBUF_OK ||
        tracebuf_writer_init(&writer, "main") != TRACEBUF_OK)
        end(0);
    cost("begin", begin);
    cost("end", end_slice);
    cost("instant", instant);
    cost("count", count);
    cost("count_i64", count_i64);
    end(tracebuf_dropped() == 0);
}
