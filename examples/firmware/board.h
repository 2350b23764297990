/* What the firmware asks of its surroundings: text to the host and the end of the program by
 * semihosting, which QEMU and debuggers serve, and a timer. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void print(const char *text);
void print_number(int64_t number);
/* Ends the program with an exit code. */
void leave(int code);

/* Begins to count processor clocks; the counter has 24 bits. */
void start_clock(void);
uint32_t clocks(void);

#endif
