/*
 * Two tasks of one priority, as under an RTOS with time slices. Both export, over and over: never both at once,
 * wherever one was stopped.
 */
#include "start.h"
#include "tracebuf_packets.h"

/* Some ten times as many as it takes to stop a task between two instructions that must be one step. */
#define SLICES 30000
#define STACK_WORDS 2048

static _Alignas(8) uint8_t region[4096] __attribute__((section(".uninit")));

#define SYSTICK_CONTROL (*(volatile uint32_t *)0xE000E010)
#define SYSTICK_RELOAD (*(volatile uint32_t *)0xE000E014)
#define SYSTICK_VALUE (*(volatile uint32_t *)0xE000E018)
#define INTERRUPT_CONTROL (*(volatile uint32_t *)0xE000ED04)
#define SYSTEM_PRIORITIES (*(volatile uint32_t *)0xE000ED20)

static _Alignas(8) uint32_t stacks[2][STACK_WORDS];
static uint32_t *stack_of[2];
static uint32_t current;
static volatile uint32_t slices;

static uint64_t clock(void) { return slices; }

/* The end of a slice, always another number of cycles. */
void systick(void)
{
    static uint32_t chance = 12345;
    chance = chance * 1103515245 + 12345;
    SYSTICK_RELOAD = 600 + (chance >> 16) % 9000;
    SYSTICK_VALUE = 0;
    slices++;
    INTERRUPT_CONTROL = 1 << 28;
}

__attribute__((used)) static uint32_t *switch_tasks(uint32_t *stack)
{
    stack_of[current] = stack;
    current ^= 1;
    return stack_of[current];
}

/* The other registers are on the task's stack already. The FPU is off. */
__attribute__((naked)) void pendsv(void)
{
    __asm__("mrs r0, psp\n\tstmdb r0!, {r4-r11}\n\tpush {r3, lr}\n\tbl switch_tasks\n\tpop {r3, lr}\n\t"
            "ldmia r0!, {r4-r11}\n\tmsr psp, r0\n\tbx lr");
}

/* Of each task whether its export has written, and who wrote last. */
static volatile uint32_t has_written[2], last;

static int32_t write_alone(void *context, const uint8_t *bytes, size_t size)
{
    const uint32_t task = (uint32_t)context;
    (void)bytes;
    /* Somebody else has come between. */
    if (has_written[task] && last != task)
        end(0);
    has_written[task] = 1;
    last = task;
    return (int32_t)size;
}

static void task(uint32_t number)
{
    while (slices < SLICES) {
        has_written[number] = 0;
        tracebuf_packets_export(write_alone, (void *)number);
    }
    end(1);
}

static void first_task(void) { task(0); }

static void second_task(void) { task(1); }

void run(void)
{
    if (tracebuf_packets_init(region, sizeof region, 1000, clock) != TRACEBUF_PACKETS_OK)
        end(0);
    /* What switching to it finds there: eleven registers below where it begins, and the mode. */
    uint32_t *second = stacks[1] + STACK_WORDS;
    *--second = 1 << 24;
    *--second = (uint32_t)second_task;
    stack_of[1] = second - 14;
    SYSTEM_PRIORITIES |= 0xFF << 16;
    __asm__ volatile("msr psp, %0\n\tmovs r0, #2\n\tmsr control, r0\n\tisb"
                     : : "r"(stacks[0] + STACK_WORDS) : "r0", "memory");
    SYSTICK_RELOAD = 1000;
    SYSTICK_CONTROL = 7;
    first_task();
}
