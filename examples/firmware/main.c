/* Runs the self-test of a network on a Cortex-M and tells what one run takes.
 *
 *   qtape export c lenet.json -o . --name network
 *   arm-none-eabi-gcc -std=c99 -O2 -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 \
 *     -DNETWORK_TEST_NO_MAIN -nostartfiles --specs=nosys.specs -T mps2.ld -o firmware.elf \
 *     main.c board.c startup.c network.c network_test.c
 *   qemu-system-arm -M mps2-an386 -nographic -semihosting -kernel firmware.elf
 *
 * With -icount shift=0, QEMU's clock goes on by a nanosecond with each instruction. */
#include "board.h"

#ifndef NETWORK
#define NETWORK network
#define NETWORK_STEP_COUNT NETWORK_STEPS
#include "network.h"
#endif
#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

int32_t NAME(NETWORK, _step)(int32_t step);
void NAME(NETWORK, _end)(void);
int32_t NAME(NETWORK, _test)(void (*report)(const char *step, int32_t sample, int32_t index,
                                            int64_t expected, int64_t got));

static void report(const char *step, int32_t sample, int32_t index, int64_t expected,
                   int64_t got) {
  print(step);
  print(" sample ");
  print_number(sample);
  print(" index ");
  print_number(index);
  print(": expected ");
  print_number(expected);
  print(", got ");
  print_number(got);
  print("\n");
}

int main(void) {
  const int32_t wrong = NAME(NETWORK, _test)(report);
  int32_t step;
  print("results that differ: ");
  print_number(wrong);
  print("\n");
  /* The last sample again. */
  start_clock();
  for (step = 0; step < NETWORK_STEP_COUNT; ++step) (void)NAME(NETWORK, _step)(step);
  print("clocks of a run: ");
  print_number(clocks());
  print("\n");
  return wrong == 0 ? 0 : 1;
}
