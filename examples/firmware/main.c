/* Runs the self-test of a network on a Cortex-M and prints the time of one run.
 *
 *   qtape export c lenet.json -o . --name network
 *   arm-none-eabi-gcc -std=c99 -O2 -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 \
 *     -DNETWORK_TEST_NO_MAIN -nostartfiles --specs=nosys.specs -T mps2.ld -o firmware.elf \
 *     main.c board.c startup.c network.c network_test.c
 *   qemu-system-arm -M mps2-an386 -nographic -semihosting -icount shift=0 -kernel firmware.elf
 *
 * With -icount shift=0, QEMU's clock advances by one nanosecond per instruction. The timer of
 * mps2-an386 has 25 MHz: one of its clocks is 40 instructions. */
#include "board.h"

#ifndef NETWORK
#define NETWORK network
#define NETWORK_STEP_COUNT NETWORK_STEPS
#define NETWORK_HEADER "network.h"
#endif
#include NETWORK_HEADER
#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

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
  NAME(NETWORK, _context) *context = NAME(NETWORK, _static_context)();
  int32_t step;
  print("mismatches: ");
  print_number(wrong);
  print("\n");
  /* The last input again. */
  start_clock();
  for (step = 0; step < NETWORK_STEP_COUNT; ++step) (void)NAME(NETWORK, _step)(context, step);
  print("clocks of a run: ");
  const uint32_t passed = clocks();
  if (passed > 0) {
    print_number(passed);
  } else {
    print("more than the timer counts");
  }
  print("\n");
  return wrong == 0 ? 0 : 1;
}
