// Skips tests that fork where a sanitizer cannot follow.
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

/// Call it before fork(). The thread sanitizer ends a child of a multi-threaded process as soon as
/// the child starts a thread (a process attached to a pool has the lease's thread): the test is
/// skipped there.
inline void skip_unless_fork_is_followed() {
  if (!thread_sanitizer) return;
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  if (threads <= 2) return;  // the second is the sanitizer's own
  const testing::TestPartResult skipped(
      testing::TestPartResult::kSkip, __FILE__, __LINE__,
      "the thread sanitizer does not follow a fork of a process with several threads");
  GTEST_MESSAGE_AT_(skipped.file_name(), skipped.line_number(), skipped.message(), skipped.type());
  throw testing::AssertionException(skipped);  // leaves the test; it was reported already
}

}  // namespace penstock::base
