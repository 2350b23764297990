#include "board.h"

#define SYSTICK ((volatile uint32_t *)0xE000E010u)

static uint32_t semihosting(uint32_t operation, const void *argument) {
  register uint32_t r0 __asm("r0") = operation;
  register const void *r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void print(const char *text) { (void)semihosting(0x04, text); }

void print_number(int64_t number) {
  char digits[24];
  char *at = digits + sizeof digits - 1;
  uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  *at = 0;
  do {
    *--at = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (number < 0) *--at = '-';
  print(at);
}

void leave(int code) {
  const uint32_t block[2] = {0x20026, (uint32_t)code}; /* ADP_Stopped_ApplicationExit */
  (void)semihosting(0x20, block);
  for (;;) {
  }
}

void start_clock(void) {
  SYSTICK[1] = 0xFFFFFF; /* reload */
  SYSTICK[2] = 0;        /* current */
  SYSTICK[0] = 5;        /* enabled, clock of the processor */
}

uint32_t clocks(void) {
  const uint32_t left = SYSTICK[2];
  const uint32_t passed_zero = SYSTICK[0] & (1u << 16);
  return passed_zero ? 0 : 0xFFFFFF - left;
}
