/*
 * FreeRTOS' trace macros over tracebuf. At the end of FreeRTOSConfig.h:
 *
 *     #include "tracebuf_freertos.h"
 *
 * and before the first task is created, tracebuf_init and tracebuf_tasks_init, as tracebuf.h has them. Recorded is then
 * which task runs, which could, what it sends and takes, and how much heap is free. A task, such as the one of the
 * lowest priority, calls tracebuf_rtt_poll or tracebuf_stream_poll. Tasks that record slices of their own have a
 * tracebuf_writer each.
 *
 * Macros that FreeRTOSConfig.h defines before this stay as they are: `#define traceMALLOC(address, size)` leaves the
 * heap out, and so does traceFREE, which heap_3.c needs, as it does not know how much is free. An event takes 4 to 12
 * bytes, and interrupts are masked for its length. Interrupts that are to be seen call traceISR_ENTER() at their
 * beginning, and end with portYIELD_FROM_ISR() or traceISR_EXIT(), but not with both: from FreeRTOS 11 on, ports for
 * Cortex-M have the macros there and in the tick; before, not all.
 */
#ifndef TRACEBUF_FREERTOS_H
#define TRACEBUF_FREERTOS_H

/* FreeRTOSConfig.h is read by assemblers, too. */
#ifndef __ASSEMBLER__

#include "tracebuf.h"

#define TRACEBUF_TASK(tcb) ((uint32_t)(uintptr_t)(tcb))

/* The number of the interrupt that runs. */
#ifndef TRACEBUF_ISR
#if defined(__arm__) && defined(__GNUC__)
static inline uint32_t tracebuf_isr_number(void)
{
    uint32_t number;
    __asm__ volatile("mrs %0, ipsr" : "=r"(number));
    return number;
}
#define TRACEBUF_ISR() tracebuf_isr_number()
#else
#define TRACEBUF_ISR() 0
#endif
#endif

/* Tasks. pxCurrentTCB and pcTaskName are the kernel's: the macros are used only within tasks.c. */
#ifndef traceTASK_CREATE
#define traceTASK_CREATE(tcb) tracebuf_task_created(TRACEBUF_TASK(tcb), (tcb)->pcTaskName)
#endif
#ifndef traceTASK_DELETE
#define traceTASK_DELETE(tcb) tracebuf_task_ended(TRACEBUF_TASK(tcb))
#endif
#ifndef traceMOVED_TASK_TO_READY_STATE
#define traceMOVED_TASK_TO_READY_STATE(tcb) tracebuf_task_ready(TRACEBUF_TASK(tcb))
#endif
#ifndef traceTASK_SWITCHED_IN
#define traceTASK_SWITCHED_IN() tracebuf_task_switched(TRACEBUF_TASK(pxCurrentTCB))
#endif
#ifndef traceTASK_SWITCHED_OUT
/* What is switched in next says it. */
#define traceTASK_SWITCHED_OUT()
#endif

/* Sleep without ticks, within the idle task. */
#ifndef traceLOW_POWER_IDLE_BEGIN
#define traceLOW_POWER_IDLE_BEGIN() tracebuf_task_idle(0)
#endif
#ifndef traceLOW_POWER_IDLE_END
#define traceLOW_POWER_IDLE_END() tracebuf_task_busy(0)
#endif

/* Interrupts. */
#ifndef traceISR_ENTER
#define traceISR_ENTER() tracebuf_isr_enter(TRACEBUF_ISR())
#endif
#ifndef traceISR_EXIT
#define traceISR_EXIT() tracebuf_isr_exit(TRACEBUF_ISR())
#endif
#ifndef traceISR_EXIT_TO_SCHEDULER
#define traceISR_EXIT_TO_SCHEDULER() tracebuf_isr_exit(TRACEBUF_ISR())
#endif

/* Queues, and what is made of them: semaphores and mutexes. */
#ifndef traceQUEUE_SEND
#define traceQUEUE_SEND(queue) tracebuf_task_instant("queue send")
#endif
#ifndef traceQUEUE_SEND_FAILED
#define traceQUEUE_SEND_FAILED(queue) tracebuf_task_instant("queue send failed")
#endif
#ifndef traceQUEUE_SEND_FROM_ISR
#define traceQUEUE_SEND_FROM_ISR(queue) tracebuf_task_instant("queue send from interrupt")
#endif
#ifndef traceQUEUE_RECEIVE
#define traceQUEUE_RECEIVE(queue) tracebuf_task_instant("queue receive")
#endif
#ifndef traceQUEUE_RECEIVE_FAILED
#define traceQUEUE_RECEIVE_FAILED(queue) tracebuf_task_instant("queue receive failed")
#endif
#ifndef traceQUEUE_RECEIVE_FROM_ISR
#define traceQUEUE_RECEIVE_FROM_ISR(queue) tracebuf_task_instant("queue receive from interrupt")
#endif
#ifndef traceBLOCKING_ON_QUEUE_SEND
#define traceBLOCKING_ON_QUEUE_SEND(queue) tracebuf_task_instant("waits to send")
#endif
#ifndef traceBLOCKING_ON_QUEUE_RECEIVE
#define traceBLOCKING_ON_QUEUE_RECEIVE(queue) tracebuf_task_instant("waits to receive")
#endif

/* The heap: how much of it is free. */
#ifndef traceMALLOC
#define traceMALLOC(address, size) tracebuf_task_count("free heap", (int64_t)xPortGetFreeHeapSize())
#endif
#ifndef traceFREE
#define traceFREE(address, size) tracebuf_task_count("free heap", (int64_t)xPortGetFreeHeapSize())
#endif

#endif
#endif
