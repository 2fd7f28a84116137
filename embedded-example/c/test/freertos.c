/*
 * FreeRTOS' trace macros of tracebuf_freertos.h, on the MPS2 AN386 in QEMU. There is no kernel here but a small
 * stand-in, which uses the macros where the kernel does, with the kernel's names in scope: two tasks take turns in
 * passing messages, while SysTick interrupts them, and a third one lives shortly. The program begins with all that can
 * be wrong about arguments, and ends with what it has recorded in the file freertos.bin, through tracebuf_stream_poll.
 */
#include "start.h"
#include "tracebuf.h"
#include "tracebuf_freertos.h"

#define MESSAGES 50
#define TICKS 20

#define TIMER_VALUE (*(volatile uint32_t *)0x40002004)
#define TIMER_CONTROL (*(volatile uint32_t *)0x40002008)
#define INTERRUPT_CONTROL (*(volatile uint32_t *)0xE000ED04)

static _Alignas(8) uint8_t region[TRACEBUF_REGION_SIZE] __attribute__((section(".uninit")));
static tracebuf_writer own;
static tracebuf_rtt rtt;
static uint32_t file;

static uint32_t timer(void) { return ~TIMER_VALUE; }

static void must(int holds)
{
    if (!holds)
        end(0);
}

/* What there is goes into the file: the task of the lowest priority would do that. */
static void send(void)
{
    static uint8_t buffer[100];
    size_t length;
    while ((length = tracebuf_stream_poll(buffer, sizeof buffer)) != 0) {
        const uint32_t parameters[3] = { file, (uint32_t)buffer, length };
        must(host(5, parameters) == 0);
    }
}

/* The stand-in for the kernel. */
struct tcb { char pcTaskName[16]; };
static struct tcb blocks[2], *volatile pxCurrentTCB;
static size_t free_heap = 4096;

static size_t xPortGetFreeHeapSize(void) { return free_heap; }

static void create(struct tcb *block, const char *name)
{
    free_heap -= sizeof *block;
    traceMALLOC(block, sizeof *block);
    size_t at = 0;
    for (; name[at] && at < sizeof block->pcTaskName - 1; at++)
        block->pcTaskName[at] = name[at];
    block->pcTaskName[at] = 0;
    traceTASK_CREATE(block);
    traceMOVED_TASK_TO_READY_STATE(block);
}

static void delete(struct tcb *block)
{
    traceTASK_DELETE(block);
    free_heap += sizeof *block;
    traceFREE(block, sizeof *block);
}

static void switch_to(struct tcb *block)
{
    traceTASK_SWITCHED_OUT();
    pxCurrentTCB = block;
    traceTASK_SWITCHED_IN();
}

void pendsv(void) {}

void systick(void)
{
    traceISR_ENTER();
    traceQUEUE_SEND_FROM_ISR(NULL);
    traceISR_EXIT();
}

static void wrong_arguments(void)
{
    static tracebuf_writer never;
    static tracebuf_track nowhere;
    uint8_t buffer[8];
    must(tracebuf_stream_poll(buffer, sizeof buffer) == 0 && tracebuf_rtt_poll(&rtt) == 0 && tracebuf_now() == 0);
    must(tracebuf_writer_init(&own, "early") == TRACEBUF_NOT_YET && tracebuf_tasks_init() == TRACEBUF_NOT_YET);
    must(tracebuf_init(NULL, sizeof region, 25000000, timer) == TRACEBUF_WRONG);
    must(tracebuf_init(region, sizeof region - 1, 25000000, timer) == TRACEBUF_WRONG);
    must(tracebuf_init(region + 1, sizeof region, 25000000, timer) == TRACEBUF_WRONG);
    must(tracebuf_init(region, sizeof region, 25000000, NULL) == TRACEBUF_WRONG);
    must(tracebuf_init(region, sizeof region, 25000000, timer) == TRACEBUF_OK);
    must(tracebuf_init(region, sizeof region, 25000000, timer) == TRACEBUF_TWICE);
    must(tracebuf_writer_init(NULL, "none") == TRACEBUF_WRONG);
    must(tracebuf_writer_init((tracebuf_writer *)(region + 1), "none") == TRACEBUF_WRONG);
    must(tracebuf_track_init(NULL, "none", 0) == TRACEBUF_WRONG);
    tracebuf_task_created(1, "too early");
    must(tracebuf_tasks_init() == TRACEBUF_OK && tracebuf_tasks_init() == TRACEBUF_TWICE);
    must(tracebuf_writer_init(&own, "own") == TRACEBUF_OK && tracebuf_writer_init(&own, "own") == TRACEBUF_TWICE);
    for (int which = 0; which < 2; which++) {
        tracebuf_writer *writer = which ? NULL : &never;
        tracebuf_begin(writer, "nowhere");
        tracebuf_begin_with(writer, "nowhere", NULL);
        tracebuf_count(writer, "nowhere", 1);
        tracebuf_log(writer, 4, "nowhere", "nothing");
        tracebuf_end(writer);
        tracebuf_writer_end(writer);
        tracebuf_instant_on(&own, which ? NULL : &nowhere, "nowhere");
    }
    must(tracebuf_stream_poll(NULL, 8) == 0 && tracebuf_stream_poll(buffer, 0) == 0 && tracebuf_rtt_poll(NULL) == 0);
    tracebuf_task_ends();
    tracebuf_writer_end(NULL);
}

/* Each kind of event, once; and writers beyond four. */
static void all_kinds(void)
{
    static tracebuf_track motor;
    static tracebuf_writer writers[10];
    must(tracebuf_track_init(&motor, "motor", 1) == TRACEBUF_OK);
    const tracebuf_details details = { 7, { { "open", NULL, -1 }, { "by", "hand", 0 } } };
    tracebuf_begin_with(&own, "door", &details);
    tracebuf_instant_with(&own, "bell", &details);
    tracebuf_instant_with(&own, "plain", NULL);
    tracebuf_end(&own);
    tracebuf_count_i64(&own, "large", INT64_MIN);
    tracebuf_count_f32(&own, "fraction", 0.5f);
    tracebuf_log(&own, 5, "tag", "a line");
    tracebuf_instant(&own, "caf\xE9");
    tracebuf_begin_on(&own, &motor, "turns");
    tracebuf_instant_on(&own, &motor, "half");
    tracebuf_end_on(&own, &motor);
    for (int writer = 0; writer < 10; writer++) {
        must(tracebuf_writer_init(&writers[writer], "one of ten") == TRACEBUF_OK);
        tracebuf_instant(&writers[writer], "hello");
        tracebuf_writer_end(&writers[writer]);
        tracebuf_instant(&writers[writer], "after its end");
    }
}

void run(void)
{
    static const char name[] = "freertos.bin";
    const uint32_t open[3] = { (uint32_t)name, 5 /* "wb" */, sizeof name - 1 };
    TIMER_CONTROL = 0x82; /* on, 32 bits */
    file = (uint32_t)host(1, open);
    wrong_arguments();
    all_kinds();
    create(&blocks[0], "sender");
    create(&blocks[1], "receiver");
    for (int32_t message = 0; message < MESSAGES; message++) {
        switch_to(&blocks[0]);
        tracebuf_begin(&own, "step");
        traceQUEUE_SEND(NULL);
        traceMOVED_TASK_TO_READY_STATE(&blocks[1]);
        tracebuf_count(&own, "message", message);
        tracebuf_end(&own);
        if (message < TICKS) {
            INTERRUPT_CONTROL = 1 << 26; /* pends SysTick */
            __asm__ volatile("isb");
            switch_to(&blocks[0]); /* the tick has woken nobody */
        }
        switch_to(&blocks[1]);
        traceQUEUE_RECEIVE(NULL);
        traceBLOCKING_ON_QUEUE_RECEIVE(NULL);
        send();
    }
    /* Its block is another task's then. */
    switch_to(&blocks[0]);
    delete(&blocks[1]);
    create(&blocks[1], "short");
    switch_to(&blocks[1]);
    delete(&blocks[1]);
    tracebuf_task_none();
    traceLOW_POWER_IDLE_BEGIN();
    traceLOW_POWER_IDLE_END();
    tracebuf_stream_flush();
    send();
    host(2, &file);
    /* Into the memory that no probe reads here, as much as there is room for. */
    for (int32_t event = 0; event < 1000; event++)
        tracebuf_instant(&own, "unread");
    must(tracebuf_rtt_poll(&rtt) == 1023 && tracebuf_rtt_poll(&rtt) == 0);
    must(((const char *)&rtt)[0] == 'S' && ((const char *)&rtt)[9] == 'T');
    end(tracebuf_dropped() == 0 && tracebuf_tasks_lost() == 0);
}
