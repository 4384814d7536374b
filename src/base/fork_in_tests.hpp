// Skips tests that fork if a sanitizer cannot follow the fork.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

namespace penstock::base {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool thread_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif
#else
inline constexpr bool thread_sanitizer = false;
#endif

/// Call it before fork(). Skips the test under the thread sanitizer, which ends a child of a
/// multi-threaded process as soon as the child starts a thread (a process that is attached to a
/// pool has a thread for its lease).
inline void skip_unless_fork_is_followed() {
  if (!thread_sanitizer) return;
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  if (threads <= 2) return;  // the second thread is the sanitizer's own
  const testing::TestPartResult skipped(
      testing::TestPartResult::kSkip, __FILE__, __LINE__,
      "the thread sanitizer does not follow a fork of a process with several threads");
  GTEST_MESSAGE_AT_(skipped.file_name(), skipped.line_number(), skipped.message(), skipped.type());
  throw testing::AssertionException(skipped);  // leaves the test, which is already reported
}

}  // namespace penstock::base
