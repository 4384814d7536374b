// One-sided operations through libfabric: put, get and atomics, on memory that only its owner can
// access and on memory in the pool.
#include <gtest/gtest.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <map>
#include <random>
#include <vector>

#include "arena/arena.hpp"
#include "test_pair.hpp"

namespace penstock::ofi::test {
namespace {

enum class Lies { in_private_memory, in_the_pool };

struct Kind {
  Mode mode;
  Lies lies;
};

constexpr std::size_t memory_bytes = 1 << 20;

/// A side with memory that the other side may access.
class Reachable {
 public:
  explicit Reachable(Side& side, Lies lies) : side_(side), lies_(lies) {
    if (lies == Lies::in_the_pool) {
      pool::AttachOptions options;
      options.spec = std::getenv("PENSTOCK_POOL");
      options.observer = false;
      auto attached = pool::Pool::attach(options);
      CHECK(attached.has_value());
      pool_ = std::move(*attached);
      auto arena = arena::Arena::open(*pool_);
      CHECK(arena.has_value());
      arena_ = std::move(*arena);
      auto object = arena_->create("memory-" + std::to_string(side.index), memory_bytes);
      CHECK(object.has_value());
      at_ = object->data;
    } else {
      own_.resize(memory_bytes);
      at_ = own_.data();
    }
    reopen(1);
  }
  ~Reachable() {
    if (mr_ != nullptr) fi_close(&mr_->fid);
  }
  void close() {
    CHECK(fi_close(&mr_->fid) == 0);
    mr_ = nullptr;
  }

  void reopen(std::uint64_t key, std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE) {
    if (mr_ != nullptr) CHECK(fi_close(&mr_->fid) == 0);
    CHECK(fi_mr_reg(side_.domain, at_, memory_bytes, access, 0, key, 0, &mr_, nullptr) == 0);
    const bool by_address = (side_.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    const std::uint64_t own[2] = {fi_mr_key(mr_),
                                  by_address ? reinterpret_cast<std::uintptr_t>(at_) : 0};
    std::uint64_t other[2];
    CHECK(::write(side_.link, own, sizeof own) == sizeof own);
    CHECK(::read(side_.link, other, sizeof other) == sizeof other);
    key_ = other[0];
    base_ = other[1];
  }

  std::uint64_t key() const { return key_; }
  std::uint64_t address(std::uint64_t offset) const { return base_ + offset; }
  /// Contents of this side's own memory.
  std::string held(std::uint64_t from, std::size_t bytes) const {
    std::string copy(bytes, '\0');
    if (bytes == 0) return copy;
    if (pool_ != nullptr)
      pool_->memory().observe_bulk(copy.data(), at_ + from, bytes);
    else
      std::memcpy(copy.data(), at_ + from, bytes);
    return copy;
  }
  void set(std::uint64_t at, const std::string& text) {
    std::memcpy(at_ + at, text.data(), text.size());
    if (pool_ != nullptr) {
      pool_->memory().write_back(at_ + at, text.size());
      pool_->memory().full_fence();
    }
  }

  /// Puts the text, and waits until it has arrived.
  void put(const std::string& text, std::uint64_t to) {
    const iovec local{const_cast<char*>(text.data()), text.size()};
    const fi_rma_iov remote{address(to), text.size(), key()};
    const fi_msg_rma msg{&local, nullptr, 1, side_.peer, &remote, 1, this, 0};
    side_.post([&] { return fi_writemsg(side_.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE); });
    const auto entry = side_.wait();
    CHECK(entry.op_context == this);
    CHECK((entry.flags & (FI_RMA | FI_WRITE)) == (FI_RMA | FI_WRITE));
  }
  std::string get(std::uint64_t from, std::size_t bytes) {
    std::string text(bytes, '\0');
    side_.post([&] {
      return fi_read(side_.ep, text.data(), bytes, nullptr, side_.peer, address(from), key(), this);
    });
    const auto entry = side_.wait();
    CHECK(entry.op_context == this);
    CHECK((entry.flags & (FI_RMA | FI_READ)) == (FI_RMA | FI_READ));
    return text;
  }

  Side& side_;

 private:
  Lies lies_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  std::vector<std::byte> own_;
  std::byte* at_ = nullptr;
  fid_mr* mr_ = nullptr;
  std::uint64_t key_ = 0, base_ = 0;
};

class RmaTest : public PairTest, public ::testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override { make_pool(GetParam().mode); }
  using RmaPlay = std::function<void(Side&, Reachable&)>;
  /// Side 0 is the origin, side 1 the target; both synchronize at the end.
  void play_rma(const RmaPlay& left, const RmaPlay& right) {
    const Lies lies = GetParam().lies;
    const auto with_memory = [lies](const RmaPlay& part) {
      return [lies, part](Side& side) {
        Reachable memory(side, lies);
        part(side, memory);
        side.meet();
      };
    };
    play(with_memory(left), with_memory(right));
  }
};

INSTANTIATE_TEST_SUITE_P(All, RmaTest,
                         ::testing::Values(Kind{Mode::hardware, Lies::in_private_memory},
                                           Kind{Mode::software, Lies::in_private_memory},
                                           Kind{Mode::hardware, Lies::in_the_pool},
                                           Kind{Mode::software, Lies::in_the_pool}),
                         [](const auto& test) {
                           return std::string(penstock::coherence::mode_name(test.param.mode)) +
                                  (test.param.lies == Lies::in_the_pool ? "_pool" : "_private");
                         });

constexpr std::size_t sizes[] = {0,   1,    7,    8,     9,     31,    32,     33,    64,
                                 100, 4096, 5000, 16384, 16385, 65536, 200001, 700000};

TEST_P(RmaTest, PutsArriveAndGetsBringThem) {
  play_rma(
      [](Side& side, Reachable& memory) {
        unsigned seed = 0;
        for (const std::size_t bytes : sizes) {
          for (const std::uint64_t at : {0u, 3u, 64u, 4091u}) {
            const std::string text = pattern(bytes, ++seed);
            memory.put(text, at);
            CHECK(memory.get(at, bytes) == text);
          }
          side.meet();
          side.meet();
        }
      },
      [](Side& side, Reachable& memory) {
        unsigned seed = 0;
        for (const std::size_t bytes : sizes) {
          side.meet();
          seed += 4;
          CHECK(memory.held(4091, bytes) == pattern(bytes, seed));
          side.meet();
        }
      });
}

TEST_P(RmaTest, OwnerOfPoolMemoryTakesNoPart) {
  if (GetParam().lies != Lies::in_the_pool) GTEST_SKIP() << "of private memory it does";
  play_rma(
      [](Side& side, Reachable& memory) {
        const std::string text = pattern(100'000, 3);
        memory.put(text, 1);
        CHECK(memory.get(1, text.size()) == text);
        CHECK(::write(side.link, "d", 1) == 1);
      },
      [](Side& side, Reachable& memory) {
        char done = 0;
        CHECK(::read(side.link, &done, 1) == 1);  // without any progress of the provider
        CHECK(memory.held(1, 100'000) == pattern(100'000, 3));
      });
}

TEST_P(RmaTest, ScatteredOnBothSides) {
  play_rma(
      [](Side& side, Reachable& memory) {
        std::string text = pattern(3000, 5), got(3000, '\0');
        const iovec local[3] = {
            {text.data(), 10}, {text.data() + 10, 2000}, {text.data() + 2010, 990}};
        const fi_rma_iov remote[2] = {{memory.address(100), 1500, memory.key()},
                                      {memory.address(9001), 1500, memory.key()}};
        fi_msg_rma msg{local, nullptr, 3, side.peer, remote, 2, &text, 0};
        side.post([&] { return fi_writemsg(side.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE); });
        CHECK(side.wait().op_context == &text);
        CHECK(memory.get(100, 1500) == text.substr(0, 1500));
        CHECK(memory.get(9001, 1500) == text.substr(1500));
        const iovec back[2] = {{got.data(), 2999}, {got.data() + 2999, 1}};
        msg.msg_iov = back;
        msg.iov_count = 2;
        side.post([&] { return fi_readmsg(side.ep, &msg, FI_COMPLETION); });
        CHECK(side.wait().op_context == &text);
        CHECK(got == text);
      },
      [](Side&, Reachable&) {});
}

TEST_P(RmaTest, InjectedAndWithCompletionData) {
  play_rma(
      [](Side& side, Reachable& memory) {
        std::string text = pattern(5000, 9);
        side.post([&] {
          return fi_inject_write(side.ep, text.data(), 100, side.peer, memory.address(0),
                                 memory.key());
        });
        side.post([&] {
          return fi_inject_writedata(side.ep, text.data() + 100, 4900, 0xfeedu, side.peer,
                                     memory.address(100), memory.key());
        });
        text.assign(5000, 'x');
        CHECK(side.nothing());
        side.meet();
        side.post([&] {
          return fi_writedata(side.ep, text.data(), 3000, nullptr, 0xabcdu, side.peer,
                              memory.address(0), memory.key(), &text);
        });
        CHECK(side.wait().op_context == &text);
      },
      [](Side& side, Reachable& memory) {
        fi_addr_t from;
        auto entry = side.wait(&from);
        CHECK((entry.flags & (FI_REMOTE_CQ_DATA | FI_REMOTE_WRITE | FI_RMA)) ==
              (FI_REMOTE_CQ_DATA | FI_REMOTE_WRITE | FI_RMA));
        CHECK(entry.data == 0xfeed && entry.len == 4900 && from == side.peer);
        CHECK(memory.held(0, 5000) == pattern(5000, 9));
        side.meet();
        entry = side.wait();
        CHECK(entry.data == 0xabcd && entry.len == 3000);
        CHECK(memory.held(0, 3000) == std::string(3000, 'x'));
      });
}

/// MPI waits on the counter until its puts have arrived, including injected ones.
TEST_P(RmaTest, CountersTellWhatTheEndpointWasOpenedFor) {
  tx_op_flags_ = FI_DELIVERY_COMPLETE;
  const bool owned = GetParam().lies == Lies::in_private_memory;
  play_rma(
      [owned](Side& side, Reachable& memory) {
        const std::uint64_t before = fi_cntr_read(side.tx_cntr), one = 1;
        side.post([&] {
          return fi_inject_write(side.ep, &one, 8, side.peer, memory.address(0), memory.key());
        });
        side.post([&] {
          return fi_inject_atomic(side.ep, &one, 1, side.peer, memory.address(64), memory.key(),
                                  FI_UINT64, FI_SUM);
        });
        for (int i = 0; i < 1000; ++i)
          CHECK(fi_cntr_read(side.tx_cntr) == before + (owned ? 0 : 1));
        CHECK(::write(side.link, "g", 1) == 1);
        CHECK(fi_cntr_wait(side.tx_cntr, before + 2, deadline_s * 1000) == 0);
        CHECK(::write(side.link, "d", 1) == 1);
      },
      [](Side& side, Reachable& memory) {
        char token = 0;
        CHECK(::read(side.link, &token, 1) == 1);  // no progress until then
        while (::recv(side.link, &token, 1, MSG_DONTWAIT) != 1) side.progress();
        CHECK(memory.held(0, 8) == std::string("\1\0\0\0\0\0\0\0", 8));
        CHECK(memory.held(64, 8) == std::string("\1\0\0\0\0\0\0\0", 8));
      });
}

TEST_P(RmaTest, ForbiddenAccessFailsAndChangesNothing) {
  play_rma(
      [](Side& side, Reachable& memory) {
        std::string text(64, 'w');
        side.meet();
        const auto refused = [&](std::uint64_t address, std::uint64_t key, int error) {
          side.post([&] {
            return fi_write(side.ep, text.data(), 64, nullptr, side.peer, address, key, &text);
          });
          const auto failure = side.wait_error();
          CHECK(failure.op_context == &text && failure.err == error);
          side.post([&] {
            return fi_read(side.ep, text.data(), 64, nullptr, side.peer, address, key, &text);
          });
          CHECK(side.wait_error().err == error);
        };
        refused(memory.address(0), memory.key() + 77, FI_EKEYREJECTED);
        refused(memory.address(memory_bytes - 63), memory.key(), FI_EACCES);
        refused(memory.address(0) - 1, memory.key(), FI_EACCES);
        side.meet();
        memory.reopen(2, FI_REMOTE_READ);
        CHECK(memory.get(0, 64) == std::string(64, 's'));
        side.post([&] {
          return fi_write(side.ep, text.data(), 64, nullptr, side.peer, memory.address(0),
                          memory.key(), &text);
        });
        CHECK(side.wait_error().err == FI_EACCES);
        side.meet();
        memory.reopen(3);
        memory.put(text, 0);
        side.meet();
      },
      [](Side& side, Reachable& memory) {
        memory.set(0, std::string(64, 's'));
        memory.set(memory_bytes - 64, std::string(64, 's'));
        side.meet();
        side.meet();
        memory.reopen(2, FI_REMOTE_READ);
        side.meet();
        CHECK(memory.held(0, 64) == std::string(64, 's'));
        memory.reopen(3);
        side.meet();
        CHECK(memory.held(0, 64) == std::string(64, 'w'));
        CHECK(memory.held(memory_bytes - 64, 64) == std::string(64, 's'));
      });
}

/// A region closes only after the writes and reads that peers have begun there.
TEST_P(RmaTest, ClosedMemoryIsTheUsersAgain) {
  if (GetParam().lies == Lies::in_the_pool)
    GTEST_SKIP() << "whoever writes there by itself is not waited for: docs/protocols/rma.md";
  const std::string written(memory_bytes, 'w'), later(memory_bytes, 'l');
  play_rma(
      [&](Side& side, Reachable& memory) {
        side.post([&] {
          return fi_write(side.ep, written.data(), written.size(), nullptr, side.peer,
                          memory.address(0), memory.key(), nullptr);
        });
        side.wait();
      },
      [&](Side& side, Reachable& memory) {
        while (memory.held(0, 1) != "w") side.progress();
        ASSERT_NE(memory.held(memory_bytes - 1, 1), "w") << "there was nothing to wait for";
        memory.close();
        memory.set(0, later);
        for (int i = 0; i < 10'000; ++i) side.progress();
        EXPECT_TRUE(memory.held(0, memory_bytes) == later);
        CHECK(!testing::Test::HasFailure());
      });
}

/// Fills the pool until no channel fits.
class FullPool {
 public:
  FullPool() {
    pool::AttachOptions options;
    options.spec = std::getenv("PENSTOCK_POOL");
    auto attached = pool::Pool::attach(options);
    CHECK(attached.has_value());
    pool_ = std::move(*attached);
    arena_ = std::move(*arena::Arena::open(*pool_));
    for (std::uint64_t bytes = 32 << 20; bytes >= 4096; bytes /= 2) {
      while (auto made = arena_->create("filler-" + std::to_string(fillers_.size()), bytes,
                                        {.zero = false}))
        fillers_.push_back(*made);
    }
  }
  void empty() {
    for (const auto& filler : fillers_) CHECK(arena_->destroy(filler).has_value());
    fillers_.clear();
  }

 private:
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  std::vector<arena::Object> fillers_;
};

TEST_P(RmaTest, AnAnswerThatFindsNoRoomComesLater) {
  if (GetParam().lies == Lies::in_the_pool) GTEST_SKIP() << "its owner gives no answers";
  play_rma(
      [](Side& side, Reachable& memory) {
        memory.put("what is there", 0);  // its channel is made before the pool is full
        side.meet();
        side.meet();
        CHECK(memory.get(0, 13) == "what is there");
        side.meet();
      },
      [](Side& side, Reachable&) {
        side.meet();
        FullPool full;
        side.meet();
        for (int i = 0; i < 20'000; ++i) side.progress();
        full.empty();
        side.meet();
      });
}

TEST_P(RmaTest, AnswerWithoutRoomFailsTheRequest) {
  if (GetParam().lies == Lies::in_the_pool) GTEST_SKIP() << "its owner gives no answers";
  play_rma(
      [](Side& side, Reachable& memory) {
        memory.put("what is there", 0);
        side.meet();
        side.meet();
        char text[13];
        side.post([&] {
          return fi_read(side.ep, text, sizeof text, nullptr, side.peer, memory.address(0),
                         memory.key(), text);
        });
        const fi_cq_err_entry error = side.wait_error();
        CHECK(error.err == FI_ENOSPC && error.op_context == text);
        side.meet();
        CHECK(memory.get(0, 13) == "what is there");  // the next request gets an answer again
        side.meet();
      },
      [](Side& side, Reachable&) {
        side.meet();
        ::setenv("PENSTOCK_TIMEOUT_MS", "50", 1);
        FullPool full;
        side.meet();
        side.meet();
        ::setenv("PENSTOCK_TIMEOUT_MS", "60000", 1);
        full.empty();
        side.meet();
      });
}

TEST_P(RmaTest, AtomicsOfTwoSidesExcludeEachOther) {
  constexpr int rounds = 3000;
  const RmaPlay both = [](Side& side, Reachable& memory) {
    // Both sides operate on the memory of side 1; side 1 addresses itself.
    const fi_addr_t owner = side.index == 0 ? side.peer : side.self;
    std::uint64_t target[2] = {memory.key(), memory.address(0)};
    if (side.index == 1) CHECK(::write(side.link, "k", 1) == 1);
    if (side.index == 0) {
      char token;
      CHECK(::read(side.link, &token, 1) == 1);
      CHECK(::write(side.link, target, sizeof target) == sizeof target);
    } else {
      CHECK(::read(side.link, target, sizeof target) == sizeof target);
    }
    const std::uint64_t one = 1;
    std::uint64_t old = 0, last = 0;
    for (int i = 0; i < rounds; ++i) {
      side.post([&] {
        return fi_fetch_atomic(side.ep, &one, 1, nullptr, &old, nullptr, owner, target[1],
                               target[0], FI_UINT64, FI_SUM, &old);
      });
      const auto entry = side.wait();
      CHECK(entry.op_context == &old);
      CHECK((entry.flags & (FI_ATOMIC | FI_READ)) == (FI_ATOMIC | FI_READ));
      CHECK(i == 0 || old > last);
      last = old;
    }
    side.meet();
    if (side.index == 1) {
      std::uint64_t sum;
      std::memcpy(&sum, memory.held(0, 8).data(), 8);
      CHECK(sum == 2 * rounds);
    }
  };
  play_rma(both, both);
}

TEST_P(RmaTest, AtomicsOfAllFormsAndLengths) {
  play_rma(
      [](Side& side, Reachable& memory) {
        std::mt19937 random(4);
        for (const std::size_t count : {1u, 2u, 5u, 100u, 1024u}) {
          std::vector<std::int32_t> now(count, 0), operand(count), old(count), compare(count);
          for (auto& value : operand) value = static_cast<std::int32_t>(random());
          const auto finished = [&] { CHECK(side.wait().op_context == &now); };
          side.post([&] {
            return fi_atomic(side.ep, operand.data(), count, nullptr, side.peer, memory.address(64),
                             memory.key(), FI_INT32, FI_ATOMIC_WRITE, &now);
          });
          finished();
          now = operand;
          for (const fi_op op : {FI_SUM, FI_PROD, FI_MIN, FI_MAX, FI_BOR, FI_BXOR, FI_BAND}) {
            for (auto& value : operand) value = static_cast<std::int32_t>(random());
            side.post([&] {
              return fi_fetch_atomic(side.ep, operand.data(), count, nullptr, old.data(), nullptr,
                                     side.peer, memory.address(64), memory.key(), FI_INT32, op,
                                     &now);
            });
            finished();
            CHECK(old == now);
            for (std::size_t i = 0; i < count; ++i) {
              const auto a = static_cast<std::uint32_t>(now[i]);
              const auto b = static_cast<std::uint32_t>(operand[i]);
              now[i] = op == FI_SUM    ? static_cast<std::int32_t>(a + b)
                       : op == FI_PROD ? static_cast<std::int32_t>(a * b)
                       : op == FI_MIN  ? std::min(now[i], operand[i])
                       : op == FI_MAX  ? std::max(now[i], operand[i])
                       : op == FI_BOR  ? static_cast<std::int32_t>(a | b)
                       : op == FI_BXOR ? static_cast<std::int32_t>(a ^ b)
                                       : static_cast<std::int32_t>(a & b);
            }
          }
          compare = now;
          compare[count / 2] ^= 1;  // all elements but this one are swapped
          for (auto& value : operand) value = static_cast<std::int32_t>(random());
          side.post([&] {
            return fi_compare_atomic(side.ep, operand.data(), count, nullptr, compare.data(),
                                     nullptr, old.data(), nullptr, side.peer, memory.address(64),
                                     memory.key(), FI_INT32, FI_CSWAP, &now);
          });
          finished();
          CHECK(old == now);
          for (std::size_t i = 0; i < count; ++i) now[i] = i == count / 2 ? now[i] : operand[i];
          side.post([&] {
            return fi_fetch_atomic(side.ep, now.data(), count, nullptr, old.data(), nullptr,
                                   side.peer, memory.address(64), memory.key(), FI_INT32,
                                   FI_ATOMIC_READ, &now);
          });
          finished();
          CHECK(old == now);
        }
        std::size_t most = 0;
        CHECK(fi_atomicvalid(side.ep, FI_DOUBLE, FI_SUM, &most) == 0 && most == 512);
        CHECK(fi_atomicvalid(side.ep, FI_DOUBLE, FI_BOR, &most) == -FI_EOPNOTSUPP);
        CHECK(fi_compare_atomicvalid(side.ep, FI_DOUBLE_COMPLEX, FI_CSWAP, &most) == 0);
        CHECK(fi_compare_atomicvalid(side.ep, FI_DOUBLE_COMPLEX, FI_CSWAP_LE, &most) != 0);
      },
      [](Side&, Reachable&) {});
}

}  // namespace
}  // namespace penstock::ofi::test
