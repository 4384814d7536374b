// libfabric is looked for while another thread holds the dynamic linker's lock.
#include "lib.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace {

std::atomic<bool> loads{false};

bool makes_an_info() {
  fi_info* const made = penstock::ofi::allocate_info();
  if (made != nullptr) penstock::ofi::free_info(made);
  return made != nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void called_while_loading() {
  loads = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the other call is under way
  EXPECT_TRUE(makes_an_info());
}

namespace penstock::ofi {
namespace {

/// The two calls are this process's first ones: ctest runs each test in a process of its own.
TEST(Library, IsFoundDuringALoadThatCallsUs) {
  constexpr unsigned longest_s = 30;
  ::alarm(longest_s);
  void* loaded = nullptr;
  std::thread loader([&] { loaded = ::dlopen(CALLS_WHILE_IT_LOADS, RTLD_NOW); });
  while (!loads) std::this_thread::yield();
  EXPECT_TRUE(makes_an_info());
  loader.join();
  ::alarm(0);
  ASSERT_NE(loaded, nullptr) << ::dlerror();
  ::dlclose(loaded);
}

}  // namespace
}  // namespace penstock::ofi
