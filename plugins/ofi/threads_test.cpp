// Several threads on one domain, opened with FI_THREAD_SAFE or with FI_THREAD_DOMAIN, which forbids
// that. With the latter, also a thread that registers memory. Also run under the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "test_pair.hpp"

namespace penstock::ofi::test {
namespace {

class ThreadsTest : public ModesTest {
 protected:
  ThreadsTest() { threading_ = FI_THREAD_SAFE; }
};

IN_EACH_MODE(ThreadsTest);

constexpr int talkers = 3, rounds = 200;

/// A completion that a thread waits for; another thread may read it.
struct Note {
  std::atomic<bool> done{false};
};

/// Reads completions, also those of other threads, until `note` is done.
void wait_for(Side& side, Note& note) {
  const auto start = std::chrono::steady_clock::now();
  while (!note.done.load()) {
    fi_cq_tagged_entry entry{};
    const ssize_t got = fi_cq_read(side.cq, &entry, 1);
    CHECK(got == 1 || got == -FI_EAGAIN);
    if (got == 1) static_cast<Note*>(entry.op_context)->done.store(true);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(deadline_s));
  }
}

void talk(Side& side, std::uint64_t tag) {
  for (int round = 0; round < rounds; ++round) {
    const std::size_t bytes = static_cast<std::size_t>(round) * 37;
    const std::string out = pattern(bytes, static_cast<unsigned>(tag));
    std::string in(bytes, '\0');
    Note received, sent;
    side.trecv(in.data(), bytes, tag, 0, side.peer, &received);
    side.tsend(out.data(), bytes, tag, &sent);
    wait_for(side, received);
    wait_for(side, sent);
    CHECK(in == out);
  }
}

/// Opens and closes objects while other threads send.
void come_and_go(Side& side, const std::atomic<bool>& stop) {
  char name[24];
  std::size_t length = sizeof(name);
  CHECK(fi_getname(&side.ep->fid, name, &length) == 0);
  while (!stop.load()) {
    fi_addr_t number;
    CHECK(fi_av_insert(side.av, name, 1, &number, 0, nullptr) == 1);
    fi_cntr_attr cntr_attr{};
    fid_cntr* cntr = nullptr;
    CHECK(fi_cntr_open(side.domain, &cntr_attr, &cntr, nullptr) == 0);
    fi_cq_attr cq_attr{};
    fid_cq* cq = nullptr;
    CHECK(fi_cq_open(side.domain, &cq_attr, &cq, nullptr) == 0);
    fid_ep* ep = nullptr;
    CHECK(fi_endpoint(side.domain, side.info, &ep, nullptr) == 0);
    CHECK(fi_ep_bind(ep, &side.av->fid, 0) == 0);
    CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_ep_bind(ep, &cntr->fid, FI_SEND) == 0);
    CHECK(fi_enable(ep) == 0);
    (void)fi_cntr_read(side.tx_cntr);
    for (fid* object : {&ep->fid, &cq->fid, &cntr->fid}) CHECK(fi_close(object) == 0);
    CHECK(fi_av_remove(side.av, &number, 1, 0) == 0);
  }
}

/// Several threads send and receive concurrently.
void talk_at_once(Side& side) {
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  const auto run = [&](auto body) {
    return std::thread([&failures, body] {
      try {
        body();
      } catch (const Failed& failed) {
        std::fprintf(stderr, "thread: %s\n", failed.what.c_str());
        failures.fetch_add(1);
      }
    });
  };
  std::vector<std::thread> threads;
  for (std::uint64_t tag = 1; tag <= talkers; ++tag) {
    threads.push_back(run([&side, tag] { talk(side, tag); }));
  }
  std::thread other = run([&] { come_and_go(side, stop); });
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  other.join();
  CHECK(failures.load() == 0);
  CHECK(fi_cntr_read(side.tx_cntr) == talkers * rounds);
  CHECK(fi_cntr_read(side.rx_cntr) == talkers * rounds);
  side.meet();
}

TEST_P(ThreadsTest, ShareOneEndpointAndOneQueue) {
  play(talk_at_once, talk_at_once);
}

TEST_P(ThreadsTest, BlockedReadersAreAllServed) {
  const Play both = [](Side& side) {
    std::vector<std::thread> readers;
    std::atomic<int> got{0};
    char texts[talkers][8] = {};
    for (auto& text : texts) side.trecv(text, sizeof(text), 1, 0, side.peer, text);
    for (int i = 0; i < talkers; ++i) {
      readers.emplace_back([&] {
        fi_cq_tagged_entry entry{};
        if (fi_cq_sread(side.cq, &entry, 1, nullptr, deadline_s * 1000) == 1) got.fetch_add(1);
      });
    }
    for (int i = 0; i < talkers; ++i) side.tinject("x", 1);
    for (std::thread& reader : readers) reader.join();
    CHECK(got.load() == talkers);
    side.meet();
  };
  play(both, both);
}

class OneThreadTest : public ModesTest {
 protected:
  OneThreadTest() { threading_ = FI_THREAD_DOMAIN; }
};

IN_EACH_MODE(OneThreadTest);

/// Like a program that asked its MPI for MPI_THREAD_FUNNELED but calls it from several threads.
TEST_P(OneThreadTest, ServesSeveralThreadsOneAfterTheOther) {
  play(talk_at_once, talk_at_once);
}

/// MPICH registers its windows like this, outside the lock that it holds in all other calls.
TEST_P(OneThreadTest, TalksWhileAnotherRegistersMemory) {
  const Play both = [](Side& side) {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> faults{0}, regions{0};
    std::thread other([&] {
      std::vector<char> memory(4096);
      for (std::uint64_t key = 1; !stop.load(); ++key) {
        fid_mr* region = nullptr;
        const std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
        const int made = fi_mr_reg(side.domain, memory.data(), memory.size(), access, 0, key, 0,
                                   &region, nullptr);
        if (made != 0 || fi_close(&region->fid) != 0) faults.fetch_add(1);
        regions.fetch_add(1);
      }
    });
    for (std::uint64_t tag = 1; tag <= talkers; ++tag) talk(side, tag);
    while (regions.load() < 10) std::this_thread::yield();
    stop.store(true);
    other.join();
    CHECK(faults.load() == 0);
    side.meet();
  };
  play(both, both);
}

}  // namespace
}  // namespace penstock::ofi::test
