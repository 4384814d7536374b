// Tests queues, counters, address vectors and object lifetimes through libfabric, as its manual
// pages define them.
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/fi_cm.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "test_pair.hpp"

namespace penstock::ofi::test {
namespace {

class ObjectsTest : public ModesTest {
 protected:
  /// Runs the same play on both sides.
  void play_both(const Play& both) { play(both, both); }
};

IN_EACH_MODE(ObjectsTest);

// ---- completion queues -----------------------------------------------------------------------

TEST_P(ObjectsTest, BlockingReadEndsByTimeoutAndBySignal) {
  threading_ = FI_THREAD_SAFE;
  play_both([](Side& side) {
    fi_cq_tagged_entry entry{};
    CHECK(fi_cq_sread(side.cq, &entry, 1, nullptr, 0) == -FI_EAGAIN);
    CHECK(fi_cq_sread(side.cq, &entry, 1, nullptr, 30) == -FI_EAGAIN);
    CHECK(fi_cq_signal(side.cq) == 0);  // no thread waits yet
    CHECK(fi_cq_sread(side.cq, &entry, 1, nullptr, -1) == -FI_EAGAIN);
    // one signal wakes all waiting threads
    std::array<ssize_t, 2> results{};
    std::atomic<int> waiting{0};
    std::vector<std::thread> waiters;
    for (ssize_t& result : results) {
      waiters.emplace_back([&] {
        fi_cq_tagged_entry mine{};
        waiting.fetch_add(1);
        result = fi_cq_sread(side.cq, &mine, 1, nullptr, -1);
      });
    }
    while (waiting.load() < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(fi_cq_signal(side.cq) == 0);
    for (std::thread& waiter : waiters) waiter.join();
    for (const ssize_t result : results) CHECK(result == -FI_EAGAIN);
    CHECK(fi_cq_sread(side.cq, &entry, 1, nullptr, 30) == -FI_EAGAIN);  // the signal is consumed
    side.meet();
  });
}

TEST_P(ObjectsTest, SleepingReaderNoticesMessageAndDeath) {
  play(
      [](Side& side) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        side.tinject("late", 1);
        side.meet();
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ::_exit(0);  // without closing
      },
      [](Side& side) {
        char text[8] = {};
        side.trecv(text, sizeof(text), 1, 0, side.peer);
        fi_cq_tagged_entry entry{};
        CHECK(fi_cq_sread(side.cq, &entry, 1, nullptr, -1) == 1);
        CHECK(std::string(text) == "late");
        side.meet();
        side.trecv(text, sizeof(text), 2, 0, side.peer);
        CHECK(fi_cq_sread(side.cq, &entry, 1, nullptr, -1) == -FI_EAVAIL);
        fi_cq_err_entry error{};
        CHECK(fi_cq_readerr(side.cq, &error, 0) == 1);
        CHECK(error.err == FI_ECONNRESET);
        side.trecv(text, sizeof(text), 3, 0, side.peer);
        CHECK(fi_cntr_wait(side.rx_cntr, 5, -1) == -FI_EAVAIL);
      });
}

TEST_P(ObjectsTest, EachFormatGivesItsFields) {
  play_both([](Side& side) {
    const fi_cq_format formats[] = {FI_CQ_FORMAT_UNSPEC, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG,
                                    FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED};
    const std::size_t sizes[] = {sizeof(fi_cq_entry), sizeof(fi_cq_entry), sizeof(fi_cq_msg_entry),
                                 sizeof(fi_cq_data_entry), sizeof(fi_cq_tagged_entry)};
    for (std::size_t i = 0; i < std::size(formats); ++i) {
      Loop loop;
      loop.open(side.domain, side.info, formats[i]);
      char texts[2][8];
      for (char(&text)[8] : texts) {
        CHECK(fi_trecv(loop.ep, text, 8, nullptr, FI_ADDR_UNSPEC, 0, ~0ull, text) == 0);
        CHECK(fi_tinjectdata(loop.ep, "four", 4, 0x1234, loop.self, 99) == 0);
      }
      fi_cq_tagged_entry entries[3];
      std::memset(entries, 0x55, sizeof(entries));
      std::size_t got = 0;
      while (got < 2) {
        const ssize_t more =
            fi_cq_read(loop.cq, reinterpret_cast<std::byte*>(entries) + got * sizes[i], 2 - got);
        CHECK(more > 0 || more == -FI_EAGAIN);
        if (more > 0) got += static_cast<std::size_t>(more);
      }
      for (std::size_t k = 0; k < 2; ++k) {
        fi_cq_tagged_entry entry{};
        std::memcpy(&entry, reinterpret_cast<std::byte*>(entries) + k * sizes[i], sizes[i]);
        CHECK(entry.op_context == texts[k]);
        if (sizes[i] >= sizeof(fi_cq_msg_entry)) {
          CHECK(entry.len == 4);
          CHECK((entry.flags & (FI_RECV | FI_TAGGED)) == (FI_RECV | FI_TAGGED));
        }
        if (sizes[i] >= sizeof(fi_cq_data_entry)) CHECK(entry.data == 0x1234);
        if (sizes[i] == sizeof(fi_cq_tagged_entry)) CHECK(entry.tag == 99);
      }
      // nothing is written beyond the two entries
      CHECK(reinterpret_cast<unsigned char*>(entries)[2 * sizes[i]] == 0x55);
      loop.close();
    }
    side.meet();
  });
}

TEST_P(ObjectsTest, QueueTakesMoreThanItWasOpenedFor) {
  play_both([](Side& side) {
    constexpr int many = 3000;
    fid_cq* small = nullptr;
    fi_cq_attr attr{};
    attr.size = 1;
    attr.format = FI_CQ_FORMAT_TAGGED;
    CHECK(fi_cq_open(side.domain, &attr, &small, nullptr) == 0);
    CHECK(fi_close(&small->fid) == 0);
    for (int i = 0; i < many; ++i) {
      side.trecv(nullptr, 0, static_cast<std::uint64_t>(i), 0, side.self);
      side.post([&] {
        return fi_tinject(side.ep, nullptr, 0, side.self, static_cast<std::uint64_t>(i));
      });
    }
    for (int i = 0; i < many; ++i) CHECK(side.wait().tag == static_cast<std::uint64_t>(i));
    side.meet();
  });
}

TEST_P(ObjectsTest, WaitObjectsAreHonest) {
  play_both([](Side& side) {
    for (const fi_wait_obj object : {FI_WAIT_FD, FI_WAIT_MUTEX_COND, FI_WAIT_SET, FI_WAIT_POLLFD}) {
      fi_cq_attr cq_attr{};
      cq_attr.wait_obj = object;
      fid_cq* cq = nullptr;
      CHECK(fi_cq_open(side.domain, &cq_attr, &cq, nullptr) == -FI_ENOSYS);
      fi_cntr_attr cntr_attr{};
      cntr_attr.wait_obj = object;
      fid_cntr* cntr = nullptr;
      CHECK(fi_cntr_open(side.domain, &cntr_attr, &cntr, nullptr) == -FI_ENOSYS);
    }
    for (const fi_wait_obj object : {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_YIELD}) {
      fi_cq_attr cq_attr{};
      cq_attr.wait_obj = object;
      fid_cq* cq = nullptr;
      CHECK(fi_cq_open(side.domain, &cq_attr, &cq, nullptr) == 0);
      fi_wait_obj reported = FI_WAIT_FD;
      CHECK(fi_control(&cq->fid, FI_GETWAITOBJ, &reported) == 0 && reported == object);
      int fd = -1;
      CHECK(fi_control(&cq->fid, FI_GETWAIT, &fd) == -FI_ENODATA);
      fid* waited_for = &cq->fid;
      CHECK(fi_trywait(side.fabric, &waited_for, 1) == -FI_EAGAIN);
      CHECK(fi_close(&cq->fid) == 0);
    }
    fi_wait_attr wait_attr{};
    fid_wait* set = nullptr;
    CHECK(fi_wait_open(side.fabric, &wait_attr, &set) == -FI_ENOSYS);
    side.meet();
  });
}

// ---- event queues ----------------------------------------------------------------------------

bool readable(int fd) {
  pollfd asked{fd, POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1;
}

TEST_P(ObjectsTest, EventQueueWakesByFileDescriptor) {
  play_both([](Side& side) {
    fi_eq_attr attr{};
    attr.wait_obj = FI_WAIT_FD;
    attr.flags = FI_WRITE;
    fid_eq* eq = nullptr;
    CHECK(fi_eq_open(side.fabric, &attr, &eq, nullptr) == 0);
    int fd = -1;
    CHECK(fi_control(&eq->fid, FI_GETWAIT, &fd) == 0 && fd >= 0);
    fid* waited_for = &eq->fid;
    CHECK(fi_trywait(side.fabric, &waited_for, 1) == 0);
    CHECK(!readable(fd));
    fi_eq_entry in{&eq->fid, &side, 7}, out{};
    CHECK(fi_eq_write(eq, 99, &in, sizeof(in), 0) == sizeof(in));
    CHECK(fi_trywait(side.fabric, &waited_for, 1) == -FI_EAGAIN);
    CHECK(readable(fd));
    std::uint32_t kind = 0;
    CHECK(fi_eq_read(eq, &kind, &out, 4, 0) == -FI_ETOOSMALL);
    CHECK(fi_eq_read(eq, &kind, &out, sizeof(out), FI_PEEK) == sizeof(out));
    CHECK(readable(fd));
    CHECK(fi_eq_sread(eq, &kind, &out, sizeof(out), -1, 0) == sizeof(out));
    CHECK(kind == 99 && out.context == &side && out.data == 7);
    CHECK(!readable(fd));
    CHECK(fi_eq_sread(eq, &kind, &out, sizeof(out), 20, 0) == -FI_EAGAIN);
    fi_eq_err_entry error{};
    CHECK(fi_eq_readerr(eq, &error, 0) == -FI_EAGAIN);
    std::thread writer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      (void)fi_eq_write(eq, 98, &in, sizeof(in), 0);
    });
    CHECK(fi_eq_sread(eq, &kind, &out, sizeof(out), -1, 0) == sizeof(out));
    writer.join();
    CHECK(kind == 98);
    CHECK(fi_close(&eq->fid) == 0);
    side.meet();
  });
}

// ---- counters --------------------------------------------------------------------------------

TEST_P(ObjectsTest, CountersAddSetAndWait) {
  threading_ = FI_THREAD_SAFE;
  play_both([](Side& side) {
    fi_cntr_attr attr{};
    attr.wait_obj = FI_WAIT_UNSPEC;
    fid_cntr* cntr = nullptr;
    CHECK(fi_cntr_open(side.domain, &attr, &cntr, nullptr) == 0);
    CHECK(fi_cntr_set(cntr, 10) == 0 && fi_cntr_add(cntr, 5) == 0);
    CHECK(fi_cntr_read(cntr) == 15);
    CHECK(fi_cntr_seterr(cntr, 3) == 0 && fi_cntr_adderr(cntr, 4) == 0);
    CHECK(fi_cntr_readerr(cntr) == 7);
    CHECK(fi_cntr_wait(cntr, 15, 0) == 0);
    CHECK(fi_cntr_wait(cntr, 16, 0) == -FI_ETIMEDOUT);
    CHECK(fi_cntr_wait(cntr, 16, 30) == -FI_ETIMEDOUT);
    CHECK(fi_cntr_readerr(cntr) == 7);
    std::thread adder([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      (void)fi_cntr_add(cntr, 1);
    });
    CHECK(fi_cntr_wait(cntr, 16, -1) == 0);
    adder.join();
    std::thread failer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      (void)fi_cntr_adderr(cntr, 1);
    });
    CHECK(fi_cntr_wait(cntr, 17, -1) == -FI_EAVAIL);
    failer.join();
    CHECK(fi_close(&cntr->fid) == 0);
    attr.events = static_cast<fi_cntr_events>(77);
    CHECK(fi_cntr_open(side.domain, &attr, &cntr, nullptr) == -FI_ENOSYS);
    side.meet();
  });
}

TEST_P(ObjectsTest, FailedOperationsCountAsErrors) {
  play_both([](Side& side) {
    char text[2];
    side.trecv(text, sizeof(text), 1, 0, side.self);
    side.post([&] { return fi_tinject(side.ep, "too long", 8, side.self, 1); });
    CHECK(fi_cntr_wait(side.rx_cntr, 1, -1) == -FI_EAVAIL);  // the error came before the wait
    CHECK(fi_cntr_wait(side.rx_cntr, 1, 20) == -FI_ETIMEDOUT);
    CHECK(fi_cntr_readerr(side.rx_cntr) == 1);
    CHECK(fi_cntr_read(side.rx_cntr) == 0);
    CHECK(side.wait_error().err == FI_ETRUNC);
    side.meet();
  });
}

// ---- address vectors -------------------------------------------------------------------------

TEST_P(ObjectsTest, AddressNumbersAreReusedFromTheLowest) {
  play_both([](Side& side) {
    const std::array<char, 24> own = [&] {
      std::array<char, 24> name{};
      std::size_t length = name.size();
      CHECK(fi_getname(&side.ep->fid, name.data(), &length) == 0);
      return name;
    }();
    for (const fi_av_type type : {FI_AV_TABLE, FI_AV_MAP, FI_AV_UNSPEC}) {
      fi_av_attr attr{};
      attr.type = type;
      attr.count = ~std::size_t{0};  // only a hint: any value is accepted
      fid_av* av = nullptr;
      CHECK(fi_av_open(side.domain, &attr, &av, nullptr) == 0);
      std::string addresses;
      for (int i = 0; i < 5; ++i) addresses.append(own.data(), own.size());
      for (std::size_t i = 0; i < 5; ++i) addresses[i * 24 + 16] = static_cast<char>(i);  // slots
      fi_addr_t numbers[5];
      CHECK(fi_av_insert(av, addresses.data(), 5, numbers, FI_MORE, nullptr) == 5);
      for (fi_addr_t i = 0; i < 5; ++i) CHECK(numbers[i] == i);
      fi_addr_t gone[] = {3, 1};
      CHECK(fi_av_remove(av, gone, 2, 0) == 0);
      CHECK(fi_av_remove(av, gone, 1, 0) == -FI_EINVAL);
      std::size_t length = 24;
      char back[24];
      CHECK(fi_av_lookup(av, 3, back, &length) == -FI_EINVAL);
      CHECK(fi_av_lookup(av, 77, back, &length) == -FI_EINVAL);
      CHECK(fi_av_insert(av, addresses.data() + 24, 2, numbers, 0, nullptr) == 2);
      CHECK(numbers[0] == 1 && numbers[1] == 3);
      CHECK(fi_av_insert(av, addresses.data(), 1, nullptr, 0, nullptr) == 1);  // index 5
      CHECK(fi_av_lookup(av, 5, back, &length) == 0);
      CHECK(std::memcmp(back, addresses.data(), 24) == 0);
      CHECK(fi_close(&av->fid) == 0);
    }
    side.meet();
  });
}

TEST_P(ObjectsTest, AddressesAreLookedUpAndPrintedInPart) {
  play_both([](Side& side) {
    char whole[24], part[24];
    std::size_t length = sizeof(whole);
    CHECK(fi_av_lookup(side.av, side.peer, whole, &length) == 0 && length == 24);
    std::memset(part, 0x55, sizeof(part));
    length = 10;
    CHECK(fi_av_lookup(side.av, side.peer, part, &length) == 0 && length == 24);
    CHECK(std::memcmp(part, whole, 10) == 0 && part[10] == 0x55);
    char text[128];
    length = sizeof(text);
    CHECK(fi_av_straddr(side.av, whole, text, &length) == text);
    const std::string printed = text;
    CHECK(printed.rfind("penstock://", 0) == 0 && length == printed.size() + 1);
    char short_text[12];
    length = sizeof(short_text);
    CHECK(fi_av_straddr(side.av, whole, short_text, &length) == short_text);
    CHECK(std::string(short_text) == printed.substr(0, 11) && length == printed.size() + 1);
    side.meet();
  });
}

TEST_P(ObjectsTest, AddressesComeFromNoService) {
  play_both([](Side& side) {
    fi_addr_t number;
    CHECK(fi_av_insertsvc(side.av, "localhost", "1", &number, 0, nullptr) == -FI_ENOSYS);
    CHECK(fi_av_insertsym(side.av, "h1", 1, "1", 1, &number, 0, nullptr) == -FI_ENOSYS);
    CHECK(fi_av_insert(side.av, nullptr, 0, nullptr, 0, nullptr) == 0);
    const char nonsense[48] = {};
    fi_addr_t numbers[2] = {};
    int states[2] = {-1, -1};
    CHECK(fi_av_insert(side.av, nonsense, 2, numbers, FI_SYNC_ERR, states) == 0);
    CHECK(numbers[0] == FI_ADDR_NOTAVAIL && numbers[1] == FI_ADDR_NOTAVAIL);
    CHECK(states[0] == FI_EINVAL && states[1] == FI_EINVAL);
    CHECK(fi_av_insert(side.av, nonsense, 1, numbers, FI_AV_USER_ID, nullptr) == -FI_EBADFLAGS);
    fi_av_attr attr{};
    attr.name = "shared";
    fid_av* av = nullptr;
    CHECK(fi_av_open(side.domain, &attr, &av, nullptr) == -FI_ENOSYS);
    attr.name = nullptr;
    attr.rx_ctx_bits = 1;
    CHECK(fi_av_open(side.domain, &attr, &av, nullptr) == -FI_EINVAL);
    side.meet();
  });
}

TEST_P(ObjectsTest, AsynchronousInsertionTellsTheEventQueue) {
  play_both([](Side& side) {
    fi_eq_attr eq_attr{};
    fid_eq* eq = nullptr;
    CHECK(fi_eq_open(side.fabric, &eq_attr, &eq, nullptr) == 0);
    fi_av_attr attr{};
    attr.flags = FI_EVENT;
    fid_av* av = nullptr;
    CHECK(fi_av_open(side.domain, &attr, &av, nullptr) == 0);
    char addresses[48] = {};  // the first is no valid address
    std::size_t length = 24;
    CHECK(fi_getname(&side.ep->fid, addresses + 24, &length) == 0);
    fi_addr_t numbers[2];
    int context = 0;
    CHECK(fi_av_insert(av, addresses, 2, numbers, 0, &context) == -FI_ENOEQ);
    CHECK(fi_av_bind(av, &eq->fid, 0) == 0);
    CHECK(fi_close(&eq->fid) == -FI_EBUSY);
    CHECK(fi_av_insert(av, addresses, 2, numbers, 0, &context) == 0);
    std::uint32_t kind = 0;
    fi_eq_entry entry{};
    CHECK(fi_eq_read(eq, &kind, &entry, sizeof(entry), 0) == -FI_EAVAIL);
    fi_eq_err_entry error{};
    CHECK(fi_eq_readerr(eq, &error, 0) == sizeof(error));
    CHECK(error.data == 0 && error.err == FI_EINVAL && error.context == &context);
    CHECK(error.fid == &av->fid);
    CHECK(fi_eq_read(eq, &kind, &entry, sizeof(entry), 0) == sizeof(entry));
    CHECK(kind == FI_AV_COMPLETE && entry.data == 1 && entry.context == &context);
    CHECK(entry.fid == &av->fid && numbers[1] == 0);
    CHECK(fi_close(&av->fid) == 0);
    CHECK(fi_close(&eq->fid) == 0);
    side.meet();
  });
}

TEST_P(ObjectsTest, RemovalLeavesWhatIsUnderWay) {
  constexpr std::size_t large = 3 << 20;
  play_both([](Side& side) {
    char name[24], text[8] = {};
    std::size_t length = sizeof(name);
    CHECK(fi_av_lookup(side.av, side.peer, name, &length) == 0);
    const std::string out = pattern(large, static_cast<unsigned>(side.index));
    std::string in(large, '\0');
    side.trecv(in.data(), in.size(), 1, 0, side.peer, in.data());
    side.trecv(text, sizeof(text), 2, 0, side.peer, text);
    side.tsend(out.data(), out.size(), 1, const_cast<char*>(out.data()));
    fi_addr_t gone = side.peer;
    CHECK(fi_av_remove(side.av, &gone, 1, 0) == 0);
    CHECK(fi_tinject(side.ep, "x", 1, gone, 2) == -FI_EINVAL);
    for (int i = 0; i < 2; ++i) {
      fi_addr_t from = 0;
      const fi_cq_tagged_entry entry = side.wait(&from);
      // The source is known only if the receive completed before the removal.
      if ((entry.flags & FI_RECV) != 0) CHECK(from == FI_ADDR_NOTAVAIL || from == gone);
    }
    CHECK(in == pattern(large, static_cast<unsigned>(1 - side.index)));
    CHECK(fi_av_insert(side.av, name, 1, &side.peer, 0, nullptr) == 1);
    CHECK(side.peer == gone);
    side.meet();
    side.tinject("again", 2);
    fi_addr_t from = 0;
    CHECK(side.wait(&from).op_context == text);
    CHECK(from == side.peer && std::string(text) == "again");
    side.meet();
  });
}

TEST_P(ObjectsTest, OneAddressMayHaveTwoNumbers) {
  play_both([](Side& side) {
    char name[24];
    std::size_t length = sizeof(name);
    CHECK(fi_av_lookup(side.av, side.peer, name, &length) == 0);
    fi_addr_t again = 0;
    CHECK(fi_av_insert(side.av, name, 1, &again, 0, nullptr) == 1);
    CHECK(again != side.peer);
    CHECK(fi_av_remove(side.av, &side.peer, 1, 0) == 0);
    side.peer = again;
    char text[8] = {};
    side.trecv(text, sizeof(text), 1, 0, side.peer);
    side.tinject("again", 1);
    fi_addr_t from = 0;
    side.wait(&from);
    CHECK(from == again);
    side.meet();
  });
}

// ---- messages about it all -------------------------------------------------------------------

TEST(ProviderLog, GoesByTheLibrarysLogger) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto ask = [] {
    ::setenv("FI_LOG_LEVEL", "info", 1);
    ::unsetenv("PENSTOCK_POOL");
    fi_info* hints = fi_allocinfo();
    hints->fabric_attr->prov_name = ::strdup("penstock");
    fi_info* info = nullptr;
    (void)fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info);
    ::_exit(0);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(0),
              "libfabric:.*penstock.*not offered: no pool is named");
}

TEST(ProviderLog, TellsEachReasonOnce) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto ask = [] {
    ::setenv("PENSTOCK_LOG", "info", 1);
    ::unsetenv("PENSTOCK_POOL");
    fi_info* hints = fi_allocinfo();
    hints->fabric_attr->prov_name = ::strdup("penstock");
    fi_info* info = nullptr;
    for (int i = 0; i < 3; ++i)
      (void)fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info);
    ::_exit(0);
  };
  // No line break and second line of the same fit between the ends.
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(0),
              "^penstock: info: fi_getinfo: not offered: no pool is named[^\n]*\n$");
}

}  // namespace
}  // namespace penstock::ofi::test
