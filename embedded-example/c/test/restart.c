/* What was recorded in place before a reset is found again, and sent, although it had not filled a chunk. */
#include "start.h"
#include "tracebuf.h"

#define RESET_CONTROL (*(volatile uint32_t *)0xE000ED0C)

static _Alignas(8) uint8_t region[TRACEBUF_REGION_SIZE] __attribute__((section(".uninit")));
static tracebuf_writer writer;

static uint32_t timer(void)
{
    static uint32_t calls;
    return calls++;
}

void pendsv(void) {}
void systick(void) {}

static int contains(const uint8_t *bytes, size_t size, const char *text, size_t length)
{
    for (size_t from = 0; from + length <= size; from++) {
        size_t same = 0;
        while (same < length && bytes[from + same] == (uint8_t)text[same])
            same++;
        if (same == length)
            return 1;
    }
    return 0;
}

void run(void)
{
    static const char name[] = "before the reset";
    const int32_t started = tracebuf_init(region, sizeof region, 1000000, timer);
    if (started == TRACEBUF_OK) {
        if (tracebuf_writer_init(&writer, "main loop") != TRACEBUF_OK)
            end(0);
        tracebuf_instant(&writer, name);
        RESET_CONTROL = 0x05FA0004;
        for (;;) {
        }
    }
    static uint8_t line[2000];
    size_t size = 0, length;
    while ((length = tracebuf_stream_poll(line + size, sizeof line - size)) != 0)
        size += length;
    end(started == TRACEBUF_FOUND && size < sizeof line && contains(line, size, name, sizeof name - 1));
}
