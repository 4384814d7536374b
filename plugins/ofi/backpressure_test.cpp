// Floods of messages that no receive waits for yet, through libfabric. The sender has to wait in
// the end, no message is lost, and no order of receives deadlocks. Two processes share a pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <regex>
#include <sstream>
#include <vector>

#include "test_pair.hpp"

namespace penstock::ofi::test {
namespace {

constexpr std::uint64_t limit = 1 << 20;
/// Bytes that may still be in flight when a sender is told to hold back: a ring and its cells, and
/// the sends between two polls, each with its bookkeeping.
constexpr std::uint64_t on_its_way = 2 << 20;

class BackpressureTest : public ModesTest {
 protected:
  void SetUp() override {
    ModesTest::SetUp();
    ::setenv("PENSTOCK_UNEXPECTED_BYTES", "1M", 1);
    ::setenv("PENSTOCK_LOG", "info", 1);
    for (int side = 0; side < 2; ++side)
      said_[side] = testing::TempDir() + "backpressure." + std::to_string(::getpid()) + "." +
                    std::to_string(side);
  }
  void TearDown() override {
    ::unsetenv("PENSTOCK_UNEXPECTED_BYTES");
    ::unsetenv("PENSTOCK_LOG");
    for (const std::string& said : said_) (void)::unlink(said.c_str());
    ModesTest::TearDown();
  }
  /// Makes the side write its log into a file; the log says at its end how much the side kept.
  Play written(const Play& side_play, int number = 1) const {
    return [this, side_play, number](Side& side) {
      CHECK(std::freopen(said_[number].c_str(), "w", stderr) != nullptr);
      side_play(side);
    };
  }
  struct Said {
    std::uint64_t kept = 0, announced = 0, held = 0;
  };
  Said said(int number = 1) const {
    std::ostringstream text;
    text << std::ifstream(said_[number]).rdbuf();
    const std::string all = text.str();
    std::smatch at;
    Said said;
    const bool found = std::regex_search(
        all, at, std::regex("at most (\\d+) bytes kept and (\\d+) announced.* (\\d+) times"));
    EXPECT_TRUE(found || all.find("unexpected") == all.npos) << all;
    if (found) said = {std::stoull(at[1]), std::stoull(at[2]), std::stoull(at[3])};
    return said;
  }

  std::string said_[2];  ///< the log of each side
};

IN_EACH_MODE(BackpressureTest);

/// Starts `count` sends. Returns the buffers.
std::vector<std::string> send_all(Side& side, int count, std::size_t bytes) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i)
    out.push_back(pattern(bytes + static_cast<std::size_t>(i % 5), static_cast<unsigned>(i)));
  for (int i = 0; i < count; ++i)
    side.tsend(out[static_cast<std::size_t>(i)].data(), out[static_cast<std::size_t>(i)].size(),
               static_cast<std::uint64_t>(i), &out);
  return out;
}
/// Makes progress and receives nothing.
void look_on(Side& side) {
  for (int i = 0; i < 20'000; ++i) side.progress();
}
void receive_in_reverse(Side& side, int count, std::size_t bytes, int sends = 0) {
  std::vector<std::string> in(static_cast<std::size_t>(count), std::string(bytes + 5, '\0'));
  for (int i = count; i-- > 0;) {
    std::string& buffer = in[static_cast<std::size_t>(i)];
    side.trecv(buffer.data(), buffer.size(), static_cast<std::uint64_t>(i), 0, side.peer, &buffer);
  }
  for (int ended = 0; ended < count + sends; ++ended) {
    const fi_cq_tagged_entry entry = side.wait();
    if ((entry.flags & FI_RECV) == 0) continue;
    auto& buffer = *static_cast<std::string*>(entry.op_context);
    const auto i = static_cast<unsigned>(&buffer - in.data());
    CHECK(entry.tag == i && entry.len == bytes + i % 5);
    CHECK(buffer.substr(0, entry.len) == pattern(bytes + i % 5, i));
  }
}

/// Probes until the message has arrived.
void probe(Side& side, const fi_msg_tagged& message, std::uint64_t how) {
  for (;;) {
    CHECK(fi_trecvmsg(side.ep, &message, FI_PEEK | how | FI_COMPLETION) == 0);
    fi_cq_tagged_entry entry{};
    const ssize_t got = fi_cq_sread(side.cq, &entry, 1, nullptr, 30'000);
    if (got == 1) {
      CHECK(entry.tag == message.tag && entry.len == 1000 + message.tag % 5);
      return;
    }
    fi_cq_err_entry error{};
    CHECK(got == -FI_EAVAIL && fi_cq_readerr(side.cq, &error, 0) == 1);
    CHECK(error.err == FI_ENOMSG);
  }
}

/// The first receive posted is for the message that was sent last.
TEST_P(BackpressureTest, AReceiveIsMetBehindAFlood) {
  constexpr int count = 3000;
  constexpr std::size_t bytes = 3000;
  play(
      [](Side& side) {
        const auto out = send_all(side, count, bytes);
        side.tsend(out[0].data(), 1, 1 << 20);
        for (int i = 0; i <= count; ++i) side.wait();
        side.meet();
      },
      written([](Side& side) {
        char last = 0;
        side.trecv(&last, 1, 1 << 20);
        CHECK(side.wait().tag == 1 << 20 && last == pattern(1, 0)[0]);
        receive_in_reverse(side, count, bytes);
        side.meet();
      }));
  const Said what = said();
  EXPECT_LE(what.kept, limit + on_its_way);
  EXPECT_GE(what.announced, static_cast<std::uint64_t>(count) / 2);
  EXPECT_GE(what.held, 1u);
}

/// The notice to hold back overtakes messages that this side has sent.
TEST_P(BackpressureTest, BothSendFirstAndReceiveInReverse) {
  constexpr int count = 1500;
  for (const std::size_t bytes : {20u, 6000u, 70000u}) {
    const int number = bytes > 10000 ? 200 : count;
    const Play both = [bytes, number](Side& side) {
      const auto out = send_all(side, number, bytes);
      look_on(side);
      side.meet();
      receive_in_reverse(side, number, bytes, number);
      side.meet();
    };
    play(written(both, 0), written(both, 1));
    for (int side = 0; side < 2; ++side)
      EXPECT_LE(said(side).kept, limit + on_its_way) << bytes << " bytes, side " << side;
  }
}

/// Long messages are announced from the start. Earlier short ones return to the queue, and are
/// announced when the receiver asks for that.
TEST_P(BackpressureTest, LongAndShortMessagesStayInOrder) {
  constexpr int count = 1200;
  const auto bytes_of = [](int i) { return i % 7 == 3 ? 70'000u : i % 3 == 0 ? 5000u : 20u; };
  const auto seed = [](int i) { return static_cast<unsigned>(i); };
  play(
      [&](Side& side) {
        std::vector<std::string> out;
        for (int i = 0; i < count; ++i) out.push_back(pattern(bytes_of(i), seed(i)));
        for (std::string& text : out) side.tsend(text.data(), text.size(), 1);
        for (int i = 0; i < count; ++i) side.wait();
        side.meet();
      },
      [&](Side& side) {
        look_on(side);
        std::string in(70'000, '\0');
        for (int i = 0; i < count; ++i) {
          side.trecv(in.data(), in.size(), 1);
          const fi_cq_tagged_entry entry = side.wait();
          CHECK(entry.len == bytes_of(i));
          CHECK(in.substr(0, entry.len) == pattern(bytes_of(i), seed(i)));
        }
        side.meet();
      });
}

/// Sends are canceled at any stage. The receiver gets the messages that were not canceled; the
/// canceled sends fail.
TEST_P(BackpressureTest, SendsThatWaitAreTakenBack) {
  constexpr int count = 2000;
  play(
      [](Side& side) {
        std::vector<std::string> out(count, pattern(3000, 1));
        for (int i = 0; i < count; ++i)
          side.tsend(out[static_cast<std::size_t>(i)].data(), 3000, 1,
                     &out[static_cast<std::size_t>(i)]);
        look_on(side);
        for (int i = 1; i < count; i += 2)
          (void)fi_cancel(&side.ep->fid, &out[static_cast<std::size_t>(i)]);
        int sent = 0, cancelled = 0;
        side.meet();
        while (sent + cancelled < count) {
          fi_cq_tagged_entry entry{};
          const ssize_t got = fi_cq_sread(side.cq, &entry, 1, nullptr, 30'000);
          if (got == 1) {
            ++sent;
            continue;
          }
          fi_cq_err_entry error{};
          CHECK(got == -FI_EAVAIL && fi_cq_readerr(side.cq, &error, 0) == 1);
          CHECK(error.err == FI_ECANCELED);
          ++cancelled;
        }
        CHECK(cancelled > 500);
        CHECK(::write(side.link, &sent, sizeof sent) == sizeof sent);
        side.meet();
      },
      [](Side& side) {
        side.meet();
        int received = 0, wanted = -1;
        std::string in(3000, '\0');
        side.trecv(in.data(), in.size(), 1);
        while (received != wanted) {
          fi_cq_tagged_entry entry{};
          if (fi_cq_read(side.cq, &entry, 1) == 1) {
            ++received;
            CHECK(in == pattern(3000, 1));
            side.trecv(in.data(), in.size(), 1);
          }
          int notice = 0;
          if (wanted < 0 &&
              ::recv(side.link, &notice, sizeof notice, MSG_DONTWAIT) == sizeof notice)
            wanted = notice;
        }
        CHECK(side.nothing());
        side.meet();
      });
}

TEST_P(BackpressureTest, CopiedMessagesWaitAndAreNotLost) {
  constexpr int count = 6000;
  play(
      [](Side& side) {
        const std::string text = pattern(1000, 3);
        bool waited = false;
        for (int i = 0; i < count; ++i) {
          ssize_t done;
          int turns = 0;
          while ((done = fi_tinject(side.ep, text.data(), text.size(), side.peer,
                                    static_cast<std::uint64_t>(i))) == -FI_EAGAIN) {
            if (!waited && ++turns == 50000) {
              waited = true;  // until the receiver receives
              CHECK(::write(side.link, "w", 1) == 1);
            }
          }
          CHECK(done == 0);
        }
        CHECK(waited);
        side.meet();
      },
      written([](Side& side) {
        char notice = 0;
        while (::recv(side.link, &notice, 1, MSG_DONTWAIT) != 1) side.progress();
        CHECK(notice == 'w');
        std::vector<std::string> in(count, std::string(1000, '\0'));
        for (std::string& buffer : in)
          side.trecv(buffer.data(), buffer.size(), 0, ~0ull, side.peer, &buffer);
        std::vector<bool> here(count);
        for (int i = 0; i < count; ++i) {
          const fi_cq_tagged_entry entry = side.wait();
          CHECK(entry.op_context == &in[entry.tag]);  // in order
          CHECK(in[entry.tag] == pattern(1000, 3));
          here[entry.tag] = true;
        }
        CHECK(std::find(here.begin(), here.end(), false) == here.end());
        side.meet();
      }));
  EXPECT_LE(said().kept, limit + on_its_way);
}

/// Each side waits for room at the other, and neither receives: MPI's nonblocking sends may get
/// into this state.
TEST_P(BackpressureTest, CopiesBothWaysDoNotDeadlock) {
  constexpr int count = 2500;
  const Play both = [](Side& side) {
    for (int i = 0; i < count; ++i) side.tinject(pattern(700, 5), static_cast<std::uint64_t>(i));
    std::vector<std::string> in(count, std::string(700, '\0'));
    for (int i = count; i-- > 0;)
      side.trecv(in[static_cast<std::size_t>(i)].data(), 700, static_cast<std::uint64_t>(i));
    for (int i = 0; i < count; ++i) side.wait();
    for (const std::string& text : in) CHECK(text == pattern(700, 5));
    side.meet();
  };
  play(both, both);
}

TEST_P(BackpressureTest, ASenderThatClosesLeavesItsCopies) {
  constexpr int count = 3000;
  play(
      [](Side& side) {
        for (int i = 0; i < count; ++i)
          side.tinject(pattern(900, 7), static_cast<std::uint64_t>(i));
        side.meet();  // then the endpoint closes
      },
      [](Side& side) {
        side.meet();
        look_on(side);
        for (int i = count; i-- > 0;) {
          std::string in(900, '\0');
          side.trecv(in.data(), in.size(), static_cast<std::uint64_t>(i));
          side.wait();
          CHECK(in == pattern(900, 7));
        }
      });
}

TEST_P(BackpressureTest, ADeadSendersAnnouncementsAreNotWaitedFor) {
  constexpr int count = 3000;
  const Play sender = [](Side& side) {
    const auto out = send_all(side, count, 1000);
    side.meet();
    ::raise(SIGKILL);
  };
  const Play receiver = [](Side& side) {
    fi_context2 context{};
    probe(side, {nullptr, nullptr, 0, side.peer, count - 1, 0, &context, 0}, 0);
    side.meet();
    int received = 0, failed = 0;
    std::vector<std::string> in(count, std::string(1005, '\0'));
    for (int i = count; i-- > 0;) {
      std::string& buffer = in[static_cast<std::size_t>(i)];
      side.trecv(buffer.data(), buffer.size(), static_cast<std::uint64_t>(i), 0, side.peer);
    }
    while (received + failed < count) {
      fi_cq_tagged_entry entry{};
      const ssize_t got = fi_cq_sread(side.cq, &entry, 1, nullptr, 30'000);
      if (got == 1) {
        ++received;
        continue;
      }
      CHECK(got == -FI_EAVAIL);
      fi_cq_err_entry error{};
      CHECK(fi_cq_readerr(side.cq, &error, 0) == 1);
      CHECK(error.err == FI_ECONNRESET);
      ++failed;
    }
    CHECK(received > 100 && failed > 100);
  };
  play_until_death(sender, receiver);
}

TEST_P(BackpressureTest, ProbesFindWhatWasAnnounced) {
  constexpr int count = 1000;
  play(
      [](Side& side) {
        const auto out = send_all(side, count, 1000);
        for (int i = 0; i < count; ++i) side.wait();
        side.meet();
      },
      [](Side& side) {
        for (int i = count; i-- > 0;) {
          const auto tag = static_cast<std::uint64_t>(i);
          const std::size_t bytes = 1000 + static_cast<std::size_t>(i % 5);
          std::string in(bytes, '\0');
          fi_context2 context{};
          const std::uint64_t how = i % 3 == 0 ? FI_CLAIM : i % 3 == 1 ? FI_DISCARD : 0;
          iovec iov{in.data(), in.size()};
          fi_msg_tagged message{&iov, nullptr, 1, side.peer, tag, 0, &context, 0};
          probe(side, message, how);
          if (how == FI_DISCARD) continue;
          CHECK(fi_trecvmsg(side.ep, &message, how | FI_COMPLETION) == 0);
          CHECK(side.wait().len == bytes);
          CHECK(in == pattern(bytes, static_cast<unsigned>(i)));
        }
        side.meet();
      });
}

/// Messages longer than a sixteenth of the limit are announced even if no sender is held back.
TEST_P(BackpressureTest, AVeryLongMessageIsNeverKept) {
  const Play sender = [](Side& side) {
    const std::string out = pattern(3 << 20, 1);
    side.tsend(out.data(), out.size(), 1);  // no receive waits for it
    side.tsend(out.data(), out.size(), 2);  // a receive waits for it
    side.tsend(out.data(), 5, 3);
    for (int i = 0; i < 3; ++i) side.wait();
    side.meet();
  };
  const Play receiver = [](Side& side) {
    std::string in[2] = {std::string(3 << 20, '\0'), std::string(3 << 20, '\0')};
    char small[5];
    side.trecv(in[1].data(), in[1].size(), 2);
    side.trecv(small, 5, 3);
    for (int i = 0; i < 2; ++i) side.wait();
    CHECK(in[1] == pattern(3 << 20, 1));
    side.trecv(in[0].data(), in[0].size(), 1);
    side.wait();
    CHECK(in[0] == in[1]);
    side.meet();
  };
  play(sender, written(receiver));
  EXPECT_LE(said().kept, limit);
}

}  // namespace
}  // namespace penstock::ofi::test
