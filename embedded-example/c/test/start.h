/* What the programs here have in common; start.c has it. */
#ifndef START_H
#define START_H

#include <stdint.h>

/* The debugger's host: operation and parameters. */
int32_t host(int32_t operation, const void *parameters);

/* Ends the run in QEMU. */
void end(int well);

/* The program's: what it does, and its interrupts. */
void run(void);
void pendsv(void);
void systick(void);

#endif
