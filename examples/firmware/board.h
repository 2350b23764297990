/* Board interface of the firmware: text output and exit by semihosting, which QEMU and
 * debuggers support, and a timer. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void print(const char* text);
void print_number(int64_t number);
/* Ends the program with an exit code. */
void leave(int code);

/* Starts to count clocks of the timer, with 24 bits. */
void start_clock(void);
/* Returns the clocks since then; 0 if there were more than 24 bits hold. */
uint32_t clocks(void);

#endif
