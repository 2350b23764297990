// QTAPE_TEST_SANITIZED: 1 if a sanitizer has a malloc of its own, so that tests cannot replace
// it.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang_analyzer__)
#define QTAPE_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define QTAPE_TEST_SANITIZED 1
#endif
#endif
#ifndef QTAPE_TEST_SANITIZED
#define QTAPE_TEST_SANITIZED 0
#endif
