// A small pool in a file for one test, removed whatever happens, and attachments to it.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "arena/arena.hpp"

namespace penstock::persist {

struct Attached {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;
};

class TestPool {
 public:
  /// `in_memory`: in /dev/shm, which keeps nothing.
  explicit TestPool(coherence::Mode mode = coherence::Mode::software, bool in_memory = false)
      : spec_(in_memory ? fmt::format("shm:penstock-persist-test-{}-{}", ::getpid(), ++count())
                        : fmt::format("{}/penstock-persist-test-{}-{}", folder(), ::getpid(),
                                      ++count())) {
    pool::CreateOptions options;
    options.spec = spec_;
    options.bytes = device::min_pool_bytes;
    options.mode = mode;
    options.max_processes = 16;
    options.max_nodes = 4;
    options.sparse = true;
    const auto created = pool::create(options);
    EXPECT_TRUE(created) << created.error().message;
  }
  ~TestPool() {
    if (::getpid() == maker_) (void)pool::remove(spec_, true);
  }
  TestPool(const TestPool&) = delete;
  TestPool& operator=(const TestPool&) = delete;

  const std::string& spec() const { return spec_; }

  Attached attach() const {
    pool::AttachOptions options;
    options.spec = spec_;
    Attached attached;
    auto mapped = pool::Pool::attach(options);
    if (!mapped) throw std::runtime_error(mapped.error().message);
    attached.pool = std::move(*mapped);
    auto opened = arena::Arena::open(*attached.pool);
    if (!opened) throw std::runtime_error(opened.error().message);
    attached.arena = std::move(*opened);
    return attached;
  }

 private:
  /// A folder on a disk, if there is one.
  static std::string folder() {
    const char* named = std::getenv("TMPDIR");
    return named != nullptr ? named : "/var/tmp";
  }
  static int& count() {
    static int pools = 0;
    return pools;
  }
  std::string spec_;
  pid_t maker_ = ::getpid();
};

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace penstock::persist
