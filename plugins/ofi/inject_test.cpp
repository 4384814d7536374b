// Messages whose payload the call copies, to a receiver that does not poll. Each call returns at
// once, up to a bound, and every accepted message arrives. Two processes share a pool.
#include <gtest/gtest.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <vector>

#include "test_pair.hpp"

static std::atomic<int> yields{0};

/// The provider calls this one, since the program's symbols come first.
extern "C" int sched_yield() noexcept {
  ++yields;
  return static_cast<int>(::syscall(SYS_sched_yield));
}

namespace penstock::ofi::test {
namespace {

using Inject = ssize_t (*)(Side& side, const char* data, std::size_t bytes);

constexpr std::uint64_t tag = 3, data_word = 5;

fi_msg_tagged message_of(Side& side, const iovec* pieces, std::size_t count) {
  fi_msg_tagged message{};
  message.msg_iov = pieces;
  message.iov_count = count;
  message.addr = side.peer;
  message.tag = tag;
  return message;
}

struct Form {
  const char* name;
  bool tagged;
  Inject call;
};
const Form forms[] = {
    {"fi_inject", false,
     [](Side& side, const char* data, std::size_t bytes) {
       return fi_inject(side.ep, data, bytes, side.peer);
     }},
    {"fi_injectdata", false,
     [](Side& side, const char* data, std::size_t bytes) {
       return fi_injectdata(side.ep, data, bytes, data_word, side.peer);
     }},
    {"fi_sendmsg", false,
     [](Side& side, const char* data, std::size_t bytes) {
       const iovec piece{const_cast<char*>(data), bytes};
       fi_msg message{};
       message.msg_iov = &piece;
       message.iov_count = 1;
       message.addr = side.peer;
       return fi_sendmsg(side.ep, &message, FI_INJECT);
     }},
    {"fi_tinject", true,
     [](Side& side, const char* data, std::size_t bytes) {
       return fi_tinject(side.ep, data, bytes, side.peer, tag);
     }},
    {"fi_tinjectdata", true,
     [](Side& side, const char* data, std::size_t bytes) {
       return fi_tinjectdata(side.ep, data, bytes, data_word, side.peer, tag);
     }},
    {"fi_tsendmsg", true,
     [](Side& side, const char* data, std::size_t bytes) {
       const iovec piece{const_cast<char*>(data), bytes};
       const fi_msg_tagged message = message_of(side, &piece, 1);
       return fi_tsendmsg(side.ep, &message, FI_INJECT);
     }},
    {"fi_tsendmsg of two pieces", true,
     [](Side& side, const char* data, std::size_t bytes) {
       auto* const at = const_cast<char*>(data);
       const iovec pieces[2] = {{at, bytes / 2}, {at + bytes / 2, bytes - bytes / 2}};
       const fi_msg_tagged message = message_of(side, pieces, 2);
       return fi_tsendmsg(side.ep, &message, FI_INJECT);
     }},
};

constexpr std::size_t sizes[] = {0, 8, 100, 1000, 4096, 8000, 16000};

/// Signals the other process over their link, without libfabric.
void notify(Side& side) {
  CHECK(::write(side.link, "t", 1) == 1);
}
void await_notice(Side& side) {
  char notice = 0;
  CHECK(::read(side.link, &notice, 1) == 1 && notice == 't');
}

/// Injects from one buffer that is reused at once. No call may return -FI_EAGAIN.
void inject_all(Side& side, const Form& form, std::size_t bytes, int count) {
  for (int i = 0; i < count; ++i) {
    std::string text = pattern(bytes, static_cast<unsigned>(i));
    const ssize_t done = form.call(side, text.data(), bytes);
    if (done != 0)
      throw Failed{std::string(form.name) + " of " + std::to_string(bytes) + " bytes: call " +
                   std::to_string(i) + " gives " + std::to_string(done)};
    text.assign(bytes, '!');
  }
}

/// Receives all messages, in order.
void receive_all(Side& side, const Form& form, std::size_t bytes, int count) {
  std::string in(bytes + 1, '\0');
  for (int i = 0; i < count; ++i) {
    if (form.tagged)
      side.trecv(in.data(), in.size(), tag);
    else
      side.post(
          [&] { return fi_recv(side.ep, in.data(), in.size(), nullptr, side.peer, nullptr); });
    const fi_cq_tagged_entry entry = side.wait();
    CHECK(entry.len == bytes && in.substr(0, bytes) == pattern(bytes, static_cast<unsigned>(i)));
    const bool with_data = std::string(form.name).ends_with("data");
    CHECK(((entry.flags & FI_REMOTE_CQ_DATA) != 0) == with_data);
    CHECK(!with_data || entry.data == data_word);
  }
}

class InjectTest : public ModesTest {
 protected:
  void TearDown() override {
    ::unsetenv("PENSTOCK_UNEXPECTED_BYTES");
    ::unsetenv("PENSTOCK_SPIN");
    ModesTest::TearDown();
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, InjectTest,
                         ::testing::Values(Mode::hardware, Mode::software, Mode::simulated),
                         mode_of_test);

TEST_P(InjectTest, ReturnsAtOnceWhereTheReceiverIsElsewhere) {
  constexpr int count = 200;
  play(
      [](Side& side) {
        for (const Form& form : forms)
          for (const std::size_t bytes : sizes) {
            inject_all(side, form, bytes, count);
            notify(side);
            side.meet();
          }
      },
      [](Side& side) {
        for (const Form& form : forms)
          for (const std::size_t bytes : sizes) {
            await_notice(side);
            receive_all(side, form, bytes, count);
            side.meet();
          }
      },
      FI_SELECTIVE_COMPLETION);
}

/// Between two sends it does not wait. MPI_Ibsend looks at each call.
TEST_P(InjectTest, SenderThatLooksForCompletionsKeepsItsCore) {
  constexpr int count = 200;
  constexpr std::size_t bytes = 100;
  ::setenv("PENSTOCK_SPIN", "1", 1);  // as where processes outnumber the cores
  play(
      [](Side& side) {
        const auto looks_in_vain = [&] {
          fi_cq_tagged_entry entry{};
          CHECK(fi_cq_read(side.cq, &entry, 1) == -FI_EAGAIN);
        };
        const int before = yields;
        for (int i = 0; i < count; ++i) {
          CHECK(forms[3].call(side, pattern(bytes, static_cast<unsigned>(i)).data(), bytes) == 0);
          looks_in_vain();
        }
        CHECK(yields == before);
        looks_in_vain();
        CHECK(yields == before + 1);  // it waits now
        notify(side);
        side.meet();
      },
      [](Side& side) {
        await_notice(side);
        receive_all(side, forms[3], bytes, count);
        side.meet();
      },
      FI_SELECTIVE_COMPLETION);
}

/// The bound of docs/decisions/0032, which is larger than the ring.
TEST_P(InjectTest, AsksToWaitOnlyAtTheBound) {
  constexpr std::size_t bytes = 1000, bound = 1 << 20;
  ::setenv("PENSTOCK_UNEXPECTED_BYTES", "1M", 1);
  play(
      [](Side& side) {
        const std::string text = pattern(bytes, 0);
        int count = 0;
        while (fi_tinject(side.ep, text.data(), bytes, side.peer, tag) == 0) ++count;
        CHECK(count * bytes > bound / 2);  // each copy counts with its bookkeeping
        CHECK(count * bytes < bound + (128 << 10));
        CHECK(::write(side.link, &count, sizeof count) == sizeof count);
        side.meet();
      },
      [](Side& side) {
        int count = 0;
        CHECK(::read(side.link, &count, sizeof count) == sizeof count);
        std::string in(bytes, '\0');
        for (int i = 0; i < count; ++i) {
          side.trecv(in.data(), bytes, tag);
          side.wait();
          CHECK(in == pattern(bytes, 0));
        }
        CHECK(side.nothing());
        side.meet();
      });
}

TEST_P(InjectTest, QueuedCopiesLeaveWhenTheEndpointCloses) {
  constexpr int count = 300;
  play(
      [](Side& side) {
        inject_all(side, forms[3], 1000, count);
        inject_all(side, forms[0], 1000, count);
        notify(side);  // then the endpoint closes
      },
      [](Side& side) {
        await_notice(side);
        receive_all(side, forms[0], 1000, count);
        receive_all(side, forms[3], 1000, count);
      });
}

/// There must be no error completion: the calls have returned, so it could name none of them.
TEST_P(InjectTest, QueuedCopiesGoWithADeadReceiver) {
  constexpr int count = 300;
  play_until_death(
      [](Side& side) {
        await_notice(side);
        ::raise(SIGKILL);
      },
      [](Side& side) {
        inject_all(side, forms[3], 1000, count);
        notify(side);
        ssize_t done = 0;
        const auto start = std::chrono::steady_clock::now();
        while (done == 0 || done == -FI_EAGAIN) {
          fi_cq_tagged_entry entry{};
          CHECK(fi_cq_read(side.cq, &entry, 1) == -FI_EAGAIN);
          done = fi_tinject(side.ep, "x", 1, side.peer, tag);
          CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(deadline_s));
        }
        CHECK(done == -FI_ECONNRESET);
        CHECK(side.nothing());
      });
}

/// The memory is outside the pool, so its owner must serve the operations.
TEST_P(InjectTest, OneSidedFormsReturnAtOnceToo) {
  constexpr std::uint64_t count = 2000;
  static std::uint64_t memory[2];
  play(
      [](Side& side) {
        await_notice(side);
        for (std::uint64_t i = 1; i <= count; ++i) {
          CHECK(fi_inject_write(side.ep, &i, sizeof i, side.peer, 0, 1) == 0);
          CHECK(fi_inject_atomic(side.ep, &i, 1, side.peer, sizeof i, 1, FI_UINT64, FI_SUM) == 0);
        }
        notify(side);
        side.tinject("", tag);
        side.meet();
      },
      [](Side& side) {
        fid_mr* region = nullptr;
        CHECK(fi_mr_reg(side.domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, 1, 0, &region,
                        nullptr) == 0);
        notify(side);
        await_notice(side);
        side.trecv(nullptr, 0, tag);
        side.wait();  // arrives after all of them
        CHECK(memory[0] == count && memory[1] == count * (count + 1) / 2);
        side.meet();
        CHECK(fi_close(&region->fid) == 0);
      });
}

}  // namespace
}  // namespace penstock::ofi::test
