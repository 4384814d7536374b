// The provider through libfabric itself: two processes over a pool of their own.
#include <gtest/gtest.h>

#include <vector>

#include "test_pair.hpp"

namespace penstock::ofi::test {
namespace {

class ProviderTest : public ModesTest {};

IN_EACH_MODE(ProviderTest);

const std::size_t sizes[] = {0,     1,     8,     55,    56,    57,     448,     449,    4096,
                             16383, 16384, 16385, 65536, 65537, 500001, 1 << 20, 5 << 20};

TEST_P(ProviderTest, TaggedOfAllSizesBothWays) {
  const Play both = [](Side& side) {
    for (const std::size_t bytes : sizes) {
      const std::string out = pattern(bytes, static_cast<unsigned>(side.index));
      std::string in(bytes + 8, '\0');
      int send_context = 0, receive_context = 0;
      side.trecv(in.data(), in.size(), 77, 0, side.peer, &receive_context);
      side.tsend(out.data(), bytes, 77, &send_context);
      for (int i = 0; i < 2; ++i) {
        fi_addr_t from;
        const fi_cq_tagged_entry entry = side.wait(&from);
        if (entry.op_context == &send_context) {
          CHECK((entry.flags & (FI_SEND | FI_TAGGED)) == (FI_SEND | FI_TAGGED));
          continue;
        }
        CHECK(entry.op_context == &receive_context);
        CHECK((entry.flags & (FI_RECV | FI_TAGGED)) == (FI_RECV | FI_TAGGED));
        CHECK(entry.len == bytes);
        CHECK(entry.tag == 77);
        CHECK(from == side.peer);
      }
      CHECK(in.substr(0, bytes) == pattern(bytes, static_cast<unsigned>(1 - side.index)));
    }
  };
  play(both, both);
}

TEST_P(ProviderTest, UnexpectedFloodKeepsOrder) {
  constexpr int count = 2000;
  play(
      [](Side& side) {
        for (int i = 0; i < count; ++i) {
          side.tinject(std::to_string(i) + pattern(static_cast<std::size_t>(i % 700), 1), 5);
        }
        const std::string large = pattern(300000, 9);
        side.tsend(large.data(), large.size(), 5);
        side.wait();
        side.meet();
      },
      [](Side& side) {
        side.tinject("unrelated", 1);
        for (int i = 0; i < 1000; ++i) side.progress();
        for (int i = 0; i < count; ++i) {
          std::string in(1000, '\0');
          side.trecv(in.data(), in.size(), 5);
          side.wait();
          CHECK(std::atoi(in.c_str()) == i);
        }
        std::string large(300000, '\0');
        side.trecv(large.data(), large.size(), 5);
        CHECK(side.wait().len == large.size());
        CHECK(large == pattern(300000, 9));
        side.meet();
      });
}

TEST_P(ProviderTest, UntaggedVectorsAndCompletionData) {
  play(
      [](Side& side) {
        const std::string a = pattern(100, 1), b = pattern(70000, 2), c = pattern(3, 3);
        const iovec iov[] = {{const_cast<char*>(a.data()), a.size()},
                             {const_cast<char*>(b.data()), b.size()},
                             {const_cast<char*>(c.data()), c.size()}};
        side.post([&] { return fi_sendv(side.ep, iov, nullptr, 3, side.peer, nullptr); });
        side.wait();
        side.post([&] {
          return fi_senddata(side.ep, "data", 4, nullptr, 0x1122334455667788ull, side.peer,
                             nullptr);
        });
        side.wait();
        side.post([&] { return fi_injectdata(side.ep, "inj", 3, 42, side.peer); });
        fi_msg msg{};
        msg.msg_iov = iov;
        msg.iov_count = 1;
        msg.addr = side.peer;
        side.post([&] { return fi_sendmsg(side.ep, &msg, FI_INJECT | FI_COMPLETION); });
        side.wait();
        side.meet();
      },
      [](Side& side) {
        std::string x(60000, '\0'), y(20000, '\0');
        const iovec iov[] = {{x.data(), x.size()}, {y.data(), y.size()}};
        side.post([&] { return fi_recvv(side.ep, iov, nullptr, 2, FI_ADDR_UNSPEC, nullptr); });
        fi_cq_tagged_entry entry = side.wait();
        CHECK(entry.len == 70103);
        CHECK((entry.flags & (FI_RECV | FI_MSG)) == (FI_RECV | FI_MSG));
        CHECK(x + y.substr(0, 10103) == pattern(100, 1) + pattern(70000, 2) + pattern(3, 3));
        char text[200];
        side.post([&] { return fi_recv(side.ep, text, 8, nullptr, FI_ADDR_UNSPEC, nullptr); });
        entry = side.wait();
        CHECK((entry.flags & FI_REMOTE_CQ_DATA) != 0);
        CHECK(entry.data == 0x1122334455667788ull);
        side.post([&] { return fi_recv(side.ep, text, 8, nullptr, FI_ADDR_UNSPEC, nullptr); });
        CHECK(side.wait().data == 42);
        side.post([&] { return fi_recv(side.ep, text, 200, nullptr, FI_ADDR_UNSPEC, nullptr); });
        CHECK(side.wait().len == 100);
        CHECK(std::string(text, 100) == pattern(100, 1));
        side.meet();
      });
}

TEST_P(ProviderTest, PeekClaimDiscard) {
  play(
      [](Side& side) {
        side.tinject("one", 1);
        side.tinject("two", 2);
        side.tinject("three", 3);
        const std::string large = pattern(400000, 4);
        side.tsend(large.data(), large.size(), 4);
        side.wait();
        side.meet();
      },
      [](Side& side) {
        const auto message = [&](std::uint64_t tag, void* context, const iovec* iov = nullptr) {
          fi_msg_tagged msg{};
          msg.msg_iov = iov;
          msg.iov_count = iov != nullptr ? 1 : 0;
          msg.addr = FI_ADDR_UNSPEC;
          msg.tag = tag;
          msg.context = context;
          return msg;
        };
        const auto peek = [&](std::uint64_t tag, std::uint64_t flags, void* context) {
          for (;;) {  // until the message has arrived
            const fi_msg_tagged msg = message(tag, context);
            CHECK(fi_trecvmsg(side.ep, &msg, FI_PEEK | FI_COMPLETION | flags) == 0);
            fi_cq_tagged_entry entry{};
            const ssize_t got = fi_cq_sread(side.cq, &entry, 1, nullptr, 30000);
            if (got == 1) return entry;
            CHECK(got == -FI_EAVAIL);
            fi_cq_err_entry error{};
            CHECK(fi_cq_readerr(side.cq, &error, 0) == 1);
            CHECK(error.err == FI_ENOMSG);
          }
        };
        int context = 0;
        CHECK(peek(4, 0, &context).len == 400000);
        CHECK(peek(1, 0, &context).len == 3);
        CHECK(peek(2, FI_DISCARD, &context).len == 3);
        CHECK(peek(3, FI_CLAIM, &context).len == 5);
        char text[16] = {};
        const iovec iov{text, sizeof(text)};
        const fi_msg_tagged claim = message(3, &context, &iov);
        CHECK(fi_trecvmsg(side.ep, &claim, FI_CLAIM | FI_COMPLETION) == 0);
        CHECK(side.wait().len == 5);
        CHECK(std::string(text) == "three");
        side.trecv(text, sizeof(text), 0, ~0ull);
        CHECK(side.wait().tag == 1);
        std::string large(400000, '\0');
        side.trecv(large.data(), large.size(), 0, ~0ull);
        CHECK(side.wait().tag == 4);
        CHECK(large == pattern(400000, 4));
        side.meet();
      });
}

TEST_P(ProviderTest, TruncationAndCancel) {
  play(
      [](Side& side) {
        side.tinject("0123456789", 1);
        const std::string large = pattern(100000, 4);
        side.tsend(large.data(), large.size(), 2);
        side.wait();
        side.meet();
      },
      [](Side& side) {
        char text[5] = {};
        side.trecv(text, 4, 1);
        fi_cq_err_entry error = side.wait_error();
        CHECK(error.err == FI_ETRUNC);
        CHECK(error.olen == 6);
        CHECK(error.len == 4);
        CHECK(std::string(text) == "0123");
        std::string part(60000, '\0');
        side.trecv(part.data(), part.size(), 2);
        error = side.wait_error();
        CHECK(error.err == FI_ETRUNC);
        CHECK(error.olen == 40000);
        CHECK(part == pattern(100000, 4).substr(0, 60000));
        int context = 0;
        side.trecv(text, 4, 3, 0, FI_ADDR_UNSPEC, &context);
        CHECK(fi_cancel(&side.ep->fid, &context) == 0);
        error = side.wait_error();
        CHECK(error.err == FI_ECANCELED);
        CHECK(error.op_context == &context);
        CHECK(fi_cancel(&side.ep->fid, &context) == -FI_ENOENT);
        CHECK(side.nothing());
        side.meet();
      });
}

TEST_P(ProviderTest, MultiReceive) {
  constexpr std::size_t message = 1000, messages = 40, buffer_bytes = 8 * 1024;
  play(
      [](Side& side) {
        for (std::size_t i = 0; i < messages; ++i) {
          const std::string text = pattern(message, static_cast<unsigned>(i));
          side.post([&] { return fi_inject(side.ep, text.data(), text.size(), side.peer); });
        }
        side.meet();
      },
      [](Side& side) {
        const std::size_t least = message;
        CHECK(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
                        sizeof(least)) == 0);
        std::vector<std::string> buffers(2, std::string(buffer_bytes, '\0'));
        const auto post = [&](std::size_t i) {
          const iovec iov{buffers[i].data(), buffer_bytes};
          fi_msg msg{};
          msg.msg_iov = &iov;
          msg.iov_count = 1;
          msg.addr = FI_ADDR_UNSPEC;
          msg.context = &buffers[i];
          side.post([&] { return fi_recvmsg(side.ep, &msg, FI_MULTI_RECV | FI_COMPLETION); });
        };
        post(0);
        post(1);
        for (std::size_t i = 0; i < messages; ++i) {
          const fi_cq_tagged_entry entry = side.wait();
          CHECK(entry.len == message);
          CHECK(std::string(static_cast<char*>(entry.buf), message) ==
                pattern(message, static_cast<unsigned>(i)));
          if ((entry.flags & FI_MULTI_RECV) != 0) {
            post(static_cast<std::size_t>(static_cast<std::string*>(entry.op_context) -
                                          buffers.data()));
          }
        }
        side.meet();
      });
}

TEST_P(ProviderTest, SelectiveCompletionAndCounters) {
  play(
      [](Side& side) {
        fi_msg_tagged msg{};
        const iovec iov{const_cast<char*>("quiet"), 5};
        msg.msg_iov = &iov;
        msg.iov_count = 1;
        msg.addr = side.peer;
        msg.tag = 1;
        side.post([&] { return fi_tsendmsg(side.ep, &msg, 0); });
        side.tinject("quiet", 1);
        CHECK(fi_cntr_wait(side.tx_cntr, 2, 30000) == 0);
        CHECK(side.nothing());
        side.post([&] { return fi_tsendmsg(side.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE); });
        side.wait();
        CHECK(fi_cntr_read(side.tx_cntr) == 3);
        side.meet();
      },
      [](Side& side) {
        char text[8];
        const iovec iov{text, sizeof(text)};
        fi_msg_tagged msg{};
        msg.msg_iov = &iov;
        msg.iov_count = 1;
        msg.addr = FI_ADDR_UNSPEC;
        msg.tag = 1;
        for (int i = 0; i < 2; ++i) CHECK(fi_trecvmsg(side.ep, &msg, 0) == 0);
        CHECK(fi_cntr_wait(side.rx_cntr, 2, 30000) == 0);
        CHECK(side.nothing());
        CHECK(fi_trecvmsg(side.ep, &msg, FI_COMPLETION) == 0);
        side.wait();
        CHECK(fi_cntr_readerr(side.rx_cntr) == 0);
        side.meet();
      },
      FI_SELECTIVE_COMPLETION);
}

TEST_P(ProviderTest, PollSetNamesWhatHasNews) {
  const Play both = [](Side& side) {
    fid_poll* poll = nullptr;
    fi_poll_attr attr{};
    CHECK(fi_poll_open(side.domain, &attr, &poll) == 0);
    side.cq->fid.context = &side.cq;
    side.rx_cntr->fid.context = &side.rx_cntr;
    CHECK(fi_poll_add(poll, &side.cq->fid, 0) == 0);
    CHECK(fi_poll_add(poll, &side.rx_cntr->fid, 0) == 0);
    void* contexts[4];
    CHECK(fi_poll(poll, contexts, 4) == 0);
    side.meet();
    char text[8];
    side.trecv(text, sizeof(text), 1, 0, side.peer);
    side.tinject("x", 1);
    bool cq_ready = false, cntr_ready = false;
    const auto start = std::chrono::steady_clock::now();
    while (!cq_ready || !cntr_ready) {
      const int ready = fi_poll(poll, contexts, 4);
      CHECK(ready >= 0);
      for (int i = 0; i < ready; ++i) {
        cq_ready |= contexts[i] == &side.cq;
        cntr_ready |= contexts[i] == &side.rx_cntr;
      }
      CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(deadline_s));
    }
    side.wait();
    CHECK(fi_poll(poll, contexts, 4) == 0);
    CHECK(fi_poll_del(poll, &side.cq->fid, 0) == 0);
    CHECK(fi_close(&poll->fid) == 0);
    side.meet();
  };
  play(both, both);
}

TEST_P(ProviderTest, DirectedReceiveAndSelfSend) {
  const Play both = [](Side& side) {
    char own[16] = {}, theirs[16] = {};
    side.trecv(own, sizeof(own), 9, 0, side.self, own);
    side.trecv(theirs, sizeof(theirs), 9, 0, side.peer, theirs);
    side.post([&] { return fi_tinject(side.ep, "self", 4, side.self, 9); });
    fi_cq_tagged_entry entry = side.wait();
    CHECK(entry.op_context == own);
    side.tinject("other", 9);
    entry = side.wait();
    CHECK(entry.op_context == theirs);
    CHECK(std::string(theirs) == "other");
    const std::string large = pattern(100000, 1);
    std::string in(100000, '\0');
    side.post([&] {
      return fi_tsend(side.ep, large.data(), large.size(), nullptr, side.self, 10, nullptr);
    });
    side.wait();
    side.trecv(in.data(), in.size(), 10, 0, side.self);
    side.wait();
    CHECK(in == large);
    side.meet();
  };
  play(both, both);
}

TEST_P(ProviderTest, EndpointsCanBeMadeAnew) {
  const Play both = [](Side& side) {
    for (int round = 0; round < 3; ++round) {
      fid_ep* second = nullptr;
      CHECK(fi_endpoint(side.domain, side.info, &second, nullptr) == 0);
      CHECK(fi_ep_bind(second, &side.av->fid, 0) == 0);
      CHECK(fi_ep_bind(second, &side.cq->fid, FI_TRANSMIT | FI_RECV) == 0);
      CHECK(fi_enable(second) == 0);
      fid_ep* first = side.ep;
      side.ep = second;
      side.exchange_addresses();
      char text[16] = {};
      side.trecv(text, sizeof(text), 3, 0, side.peer);
      side.tinject("again", 3);
      CHECK(side.wait().len == 5);
      side.meet();
      side.ep = first;
      CHECK(fi_close(&second->fid) == 0);
      fi_addr_t gone = side.peer;
      CHECK(fi_av_remove(side.av, &gone, 1, 0) == 0);
      side.meet();
    }
  };
  play(both, both);
}

TEST_P(ProviderTest, DeathOfThePeerFailsItsReceives) {
  play(
      [](Side& side) {
        side.tinject("last words", 1);
        side.meet();
        ::_exit(0);  // without closing
      },
      [](Side& side) {
        char text[16] = {};
        side.trecv(text, sizeof(text), 1, 0, side.peer);
        side.wait();
        side.meet();
        int context = 0;
        side.trecv(text, sizeof(text), 2, 0, side.peer, &context);
        const fi_cq_err_entry error = side.wait_error();
        CHECK(error.err == FI_ECONNRESET);
        CHECK(error.op_context == &context);
        const std::string why =
            fi_cq_strerror(side.cq, error.prov_errno, error.err_data, nullptr, 0);
        CHECK(why.find("rank 0") != std::string::npos);
        CHECK(fi_tinject(side.ep, "x", 1, side.peer, 1) == -FI_ECONNRESET);
      });
}

TEST(ProviderWithoutPool, OffersNothing) {
  ::unsetenv("PENSTOCK_POOL");
  fi_info* hints = fi_allocinfo();
  hints->fabric_attr->prov_name = ::strdup("penstock");
  fi_info* info = nullptr;
  EXPECT_EQ(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info), -FI_ENODATA);
  fi_freeinfo(hints);
}

TEST(ProviderWithoutPool, RequiredPoolEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto ask = [] {
    ::setenv("PENSTOCK_REQUIRE", "1", 1);
    ::setenv("PENSTOCK_POOL", "shm:penstock-no-such-pool", 1);
    fi_info* hints = fi_allocinfo();
    hints->fabric_attr->prov_name = ::strdup("penstock");
    fi_info* info = nullptr;
    (void)fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(78), "PENSTOCK_REQUIRE.*penstock-no-such-pool");
}

}  // namespace
}  // namespace penstock::ofi::test
