#define DOCTEST_CONFIG_IMPLEMENT
#include "qtape/tests/support/skip.h"

int main(int argc, char** argv) { return qtape::test::run_tests(argc, argv); }
