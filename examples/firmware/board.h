/* Board interface of the firmware: text output and exit by semihosting, which QEMU and
 * debuggers support, and a timer. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void print(const char* text);
void print_number(int64_t number);
/* Ends the program with an exit code. */
void leave(int code);

/* Starts to count processor clocks; the counter has 24 bits. */
void start_clock(void);
uint32_t clocks(void);

#endif
