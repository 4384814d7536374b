#include "base/fork.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/per_process.hpp"
#include "base/wait.hpp"

namespace penstock::base {
namespace {

/// Runs `body` in a child and returns its exit status.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Fork : public testing::Test {
 protected:
  Fork() { ::close(::mkstemp(path_)); }
  ~Fork() override { ::unlink(path_); }
  int open() const { return ::open(path_, O_RDWR | O_CLOEXEC); }

  char path_[32] = "/tmp/penstock-fork-XXXXXX";
};

TEST_F(Fork, AChildKnowsThatItIsOne) {
  const Origin before;
  EXPECT_TRUE(before.here());
  EXPECT_EQ(in_child([&] { return !before.here() && Origin().here() ? 7 : 1; }), 7);
  EXPECT_EQ(in_child([&] { return in_child([&] { return before.here() ? 1 : 7; }); }), 7);
  EXPECT_TRUE(before.here());
}

TEST_F(Fork, AChildHasAValueOfItsOwn) {
  PerProcess<int> value;
  value.here() = 5;
  EXPECT_EQ(in_child([&] {
              const bool fresh = value.here() == 0;
              value.here() = 6;
              return fresh && value.here() == 6 ? 7 : 1;
            }),
            7);
  EXPECT_EQ(value.here(), 5);
}

TEST_F(Fork, AChildKeepsNoDescriptor) {
  const ProcessFd first(open()), gone(open());
  ProcessFd last(open());
  const int number = first.get();
  ASSERT_GE(number, 0);
  { ProcessFd closed(open()); }
  EXPECT_EQ(in_child([&] {
              const bool none = first.get() < 0 && gone.get() < 0 && last.get() < 0;
              return none && ::fcntl(number, F_GETFD) < 0 ? 7 : 1;
            }),
            7);
  EXPECT_EQ(::fcntl(number, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  last = ProcessFd();
  EXPECT_EQ(last.get(), -1);
}

/// The child must not close a descriptor that it opened itself under the number of a closed one.
TEST_F(Fork, KeepsDescriptorThatChildReopened) {
  auto kept = std::make_unique<ProcessFd>(open());
  EXPECT_EQ(in_child([&] {
              const int number = open();
              kept.reset();
              return ::fcntl(number, F_GETFD) >= 0 ? 7 : 1;
            }),
            7);
}

TEST_F(Fork, AChildThatLivesOnKeepsNoLock) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const ProcessFd held(open());
    if (::flock(held.get(), LOCK_EX) != 0) ::_exit(1);
    ::close(ends[1]);
    const pid_t child = ::fork();
    char nothing;
    if (child == 0) ::_exit(static_cast<int>(::read(ends[0], &nothing, 1)));
    ::_exit(7);
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(holder, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  const int other = open();
  Waiter waiter("the child, which may not have run yet, to close its copy", 10'000'000'000);
  bool locked = false;
  while (!(locked = ::flock(other, LOCK_EX | LOCK_NB) == 0) && waiter.pause()) {
  }
  EXPECT_TRUE(locked);
  ::close(other);
  ::close(ends[1]);  // lets the child end
}

}  // namespace
}  // namespace penstock::base
