// Lifetimes of endpoints and the objects bound to them: opening, closing, reopening, aliases,
// several at once.
#include <gtest/gtest.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <vector>

#include "test_pair.hpp"

namespace penstock::ofi::test {
namespace {

class LivesTest : public ModesTest {
 protected:
  /// Runs the same play on both sides.
  void play_both(const Play& both) { play(both, both); }
};
IN_EACH_MODE(LivesTest);

TEST_P(LivesTest, ClosingInTheWrongOrderIsRefused) {
  play_both([](Side& side) {
    for (fid* used : {&side.cq->fid, &side.tx_cntr->fid, &side.rx_cntr->fid, &side.av->fid,
                      &side.domain->fid, &side.fabric->fid}) {
      CHECK(fi_close(used) == -FI_EBUSY);
    }
    fid_poll* set = nullptr;
    fi_poll_attr poll_attr{};
    fi_cq_attr cq_attr{};
    fid_cq* cq = nullptr;
    CHECK(fi_poll_open(side.domain, &poll_attr, &set) == 0);
    CHECK(fi_cq_open(side.domain, &cq_attr, &cq, nullptr) == 0);
    CHECK(fi_poll_add(set, &cq->fid, 0) == 0);
    CHECK(fi_close(&cq->fid) == -FI_EBUSY);
    CHECK(fi_poll_del(set, &cq->fid, 0) == 0);
    CHECK(fi_poll_del(set, &cq->fid, 0) == -FI_EINVAL);
    CHECK(fi_close(&cq->fid) == 0);
    CHECK(fi_close(&set->fid) == 0);
    side.meet();  // and everything still works
    char text[8] = {};
    side.trecv(text, sizeof(text), 1, 0, side.peer);
    side.tinject("works", 1);
    side.wait();
    side.meet();
  });
}

TEST_P(LivesTest, EndpointNeedsWhatItNeeds) {
  play_both([](Side& side) {
    fid_ep* ep = nullptr;
    CHECK(fi_endpoint(side.domain, side.info, &ep, nullptr) == 0);
    CHECK(fi_enable(ep) == -FI_ENOAV);
    char name[24];
    std::size_t length = sizeof(name);
    CHECK(fi_getname(&ep->fid, name, &length) == -FI_EOPBADSTATE);
    CHECK(fi_ep_bind(ep, &side.av->fid, 0) == 0);
    CHECK(fi_ep_bind(ep, &side.av->fid, 0) == -FI_EBUSY);
    CHECK(fi_enable(ep) == -FI_ENOCQ);
    CHECK(fi_ep_bind(ep, &side.cq->fid, 0) == -FI_EBADFLAGS);
    CHECK(fi_ep_bind(ep, &side.domain->fid, 0) == -FI_EINVAL);
    CHECK(fi_ep_bind(ep, &side.cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_ep_bind(ep, &side.cq->fid, FI_RECV) == -FI_EBUSY);
    CHECK(fi_enable(ep) == 0);
    CHECK(fi_enable(ep) == 0);
    CHECK(fi_ep_bind(ep, &side.tx_cntr->fid, FI_SEND) == -FI_EOPBADSTATE);
    length = 3;
    CHECK(fi_getname(&ep->fid, name, &length) == -FI_ETOOSMALL && length == 24);
    CHECK(fi_close(&ep->fid) == 0);
    side.meet();
  });
}

TEST_P(LivesTest, OptionsAreGotAndSet) {
  play_both([](Side& side) {
    fid* ep = &side.ep->fid;
    std::size_t bytes = 4096, length = sizeof(bytes);
    CHECK(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, sizeof(bytes)) == 0);
    bytes = 0;
    CHECK(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, &length) == 0);
    CHECK(bytes == 4096 && length == sizeof(bytes));
    length = 3;
    CHECK(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, &length) == -FI_ETOOSMALL);
    CHECK(length == sizeof(bytes));
    CHECK(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, 3) == -FI_EINVAL);
    CHECK(fi_setopt(ep, FI_OPT_ENDPOINT, 4711, &bytes, sizeof(bytes)) == -FI_ENOPROTOOPT);
    CHECK(fi_getopt(ep, FI_OPT_ENDPOINT, 4711, &bytes, &length) == -FI_ENOPROTOOPT);
    CHECK(fi_getopt(ep, 4711, FI_OPT_MIN_MULTI_RECV, &bytes, &length) == -FI_ENOPROTOOPT);
    CHECK(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &bytes, &length) == 0 && bytes == 0);
    std::uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
    CHECK(fi_control(ep, FI_SETOPSFLAG, &flags) == 0);
    flags = FI_TRANSMIT;
    CHECK(fi_control(ep, FI_GETOPSFLAG, &flags) == 0 && flags == FI_DELIVERY_COMPLETE);
    flags = FI_TRANSMIT | FI_RECV;
    CHECK(fi_control(ep, FI_GETOPSFLAG, &flags) == -FI_EINVAL);
    side.meet();
  });
}

TEST_P(LivesTest, EndpointsComeAndGo) {
  play_both([](Side& side) {
    for (int round = 0; round < 100; ++round) {
      Loop loop;
      loop.open(side.domain, side.info);
      loop.talk(loop.self, loop);
      loop.close();
    }
    std::vector<Loop> loops(8);
    for (Loop& loop : loops) loop.open(side.domain, side.info);
    for (std::size_t i = 0; i < loops.size(); ++i) {
      const Loop& receiver = loops[(i + 3) % loops.size()];
      fi_addr_t to;
      const std::array<char, 24> name = receiver.name();
      CHECK(fi_av_insert(loops[i].av, name.data(), 1, &to, 0, nullptr) == 1);
      loops[i].talk(to, receiver);
    }
    for (Loop& loop : loops) loop.close();
    side.meet();
  });
}

TEST_P(LivesTest, SeveralFabricsAndDomains) {
  play_both([](Side& side) {
    struct PoolMapping {
      fid_fabric* fabric = nullptr;
      fid_domain* domains[2] = {};
      Loop loops[2];
    };
    PoolMapping places[2];
    for (PoolMapping& place : places) {
      CHECK(fi_fabric(side.info->fabric_attr, &place.fabric, nullptr) == 0);
      for (int i = 0; i < 2; ++i) {
        CHECK(fi_domain(place.fabric, side.info, &place.domains[i], nullptr) == 0);
        place.loops[i].open(place.domains[i], side.info);
      }
      fid_ep* ep = nullptr;  // an object of another domain cannot be bound
      CHECK(fi_endpoint(place.domains[0], side.info, &ep, nullptr) == 0);
      CHECK(fi_ep_bind(ep, &place.loops[1].av->fid, 0) == -FI_EINVAL);
      CHECK(fi_ep_bind(ep, &place.loops[1].cq->fid, FI_TRANSMIT) == -FI_EINVAL);
      CHECK(fi_close(&ep->fid) == 0);
    }
    for (const PoolMapping& place : places) {
      for (int i = 0; i < 2; ++i) {
        const Loop& receiver = places[1 - (&place - places)].loops[1 - i];
        const std::array<char, 24> name = receiver.name();
        fi_addr_t to;
        CHECK(fi_av_insert(place.loops[i].av, name.data(), 1, &to, 0, nullptr) == 1);
        place.loops[i].talk(to, receiver);
      }
    }
    // Credits return when nothing arrives for a while. Closing polls only the endpoints of its own
    // domain, so poll the others here.
    for (int i = 0; i < 1000; ++i) {
      for (const PoolMapping& place : places) {
        for (const Loop& loop : place.loops) CHECK(fi_cq_read(loop.cq, nullptr, 0) == -FI_EAGAIN);
      }
    }
    for (PoolMapping& place : places) {
      for (int i = 0; i < 2; ++i) {
        CHECK(fi_close(&place.domains[i]->fid) == -FI_EBUSY);
        place.loops[i].close();
        CHECK(fi_close(&place.domains[i]->fid) == 0);
      }
      CHECK(fi_close(&place.fabric->fid) == 0);
    }
    side.meet();
  });
}

TEST_P(LivesTest, CancelTakesThePostedOneOnly) {
  play_both([](Side& side) {
    char texts[3][8] = {};
    for (auto& text : texts) side.trecv(text, sizeof(text), 1, 0, side.peer, text);
    CHECK(fi_cancel(&side.ep->fid, texts[1]) == 0);
    fi_cq_err_entry error = side.wait_error();
    CHECK(error.err == FI_ECANCELED && error.op_context == texts[1]);
    side.meet();
    side.tinject("a", 1);
    side.tinject("b", 1);
    CHECK(side.wait().op_context == texts[0]);
    CHECK(side.wait().op_context == texts[2]);
    CHECK(fi_cancel(&side.ep->fid, texts[0]) == -FI_ENOENT);  // complete already
    side.meet();
  });
}

// ---- aliases ---------------------------------------------------------------------------------

TEST_P(LivesTest, AliasDiffersByItsFlagsOnly) {
  const Play both = [](Side& side) {
    fid_ep* quiet = nullptr;
    CHECK(fi_ep_alias(side.ep, &quiet, 0) == -FI_EINVAL);
    CHECK(fi_ep_alias(side.ep, &quiet, FI_TRANSMIT | FI_RECV) == -FI_EINVAL);
    CHECK(fi_ep_alias(side.ep, &quiet, FI_TRANSMIT) == 0);  // without FI_COMPLETION
    CHECK(fi_close(&side.ep->fid) == -FI_EBUSY);
    std::uint64_t flags = FI_TRANSMIT;
    CHECK(fi_control(&quiet->fid, FI_GETOPSFLAG, &flags) == 0 && flags == 0);
    flags = FI_RECV;
    CHECK(fi_control(&quiet->fid, FI_GETOPSFLAG, &flags) == 0 && flags == FI_COMPLETION);

    char texts[4][8] = {};
    for (auto& text : texts) side.trecv(text, sizeof(text), 1, 0, side.peer, text);
    const iovec iov{const_cast<char*>("iov"), 3};
    side.post([&] { return fi_tsend(quiet, "send", 4, nullptr, side.peer, 1, nullptr); });
    side.post([&] { return fi_tsendv(quiet, &iov, nullptr, 1, side.peer, 1, nullptr); });
    side.post([&] { return fi_tsenddata(quiet, "d", 1, nullptr, 7, side.peer, 1, nullptr); });
    side.post([&] { return fi_tinject(quiet, "last", 4, side.peer, 1); });
    // only the receives are reported
    const char* const wanted[] = {"send", "iov", "d", "last"};
    for (int i = 0; i < 4; ++i) {
      const fi_cq_tagged_entry entry = side.wait();
      CHECK(entry.op_context == texts[i] && std::string(texts[i]) == wanted[i]);
      CHECK((i == 2) == ((entry.flags & FI_REMOTE_CQ_DATA) != 0));
    }
    CHECK(fi_cntr_read(side.tx_cntr) == 4);
    CHECK(side.nothing());

    char untagged[8] = {};
    side.post([&] { return fi_recv(quiet, untagged, 8, nullptr, side.peer, untagged); });
    side.post([&] { return fi_send(quiet, "plain", 5, nullptr, side.peer, nullptr); });
    CHECK(side.wait().op_context == untagged && std::string(untagged) == "plain");
    side.trecv(texts[0], 8, 9, 0, side.peer, texts[0]);
    CHECK(fi_cancel(&quiet->fid, texts[0]) == 0);
    CHECK(side.wait_error().err == FI_ECANCELED);
    side.meet();
    CHECK(fi_close(&quiet->fid) == 0);
  };
  play(both, both, FI_SELECTIVE_COMPLETION);
}

TEST_P(LivesTest, AliasReachesMemoryOfTheOther) {
  play_both([](Side& side) {
    std::array<std::uint64_t, 64> memory{};
    fid_mr* mr = nullptr;
    CHECK(fi_mr_reg(side.domain, memory.data(), sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                    4711, 0, &mr, nullptr) == 0);
    const std::uint64_t key = fi_mr_key(mr);
    fid_ep* alias = nullptr;
    CHECK(fi_ep_alias(side.ep, &alias, FI_TRANSMIT | FI_COMPLETION) == 0);
    side.meet();
    const std::uint64_t mine = 100 + static_cast<std::uint64_t>(side.index);
    side.post([&] { return fi_write(alias, &mine, 8, nullptr, side.peer, 16, key, nullptr); });
    CHECK((side.wait().flags & (FI_RMA | FI_WRITE)) == (FI_RMA | FI_WRITE));
    std::uint64_t back = 0;
    side.post([&] { return fi_read(alias, &back, 8, nullptr, side.peer, 16, key, nullptr); });
    CHECK((side.wait().flags & (FI_RMA | FI_READ)) == (FI_RMA | FI_READ));
    CHECK(back == mine);
    side.meet();
    CHECK(memory[2] == 101 - static_cast<std::uint64_t>(side.index));
    CHECK(fi_close(&alias->fid) == 0);
    CHECK(fi_close(&mr->fid) == 0);
  });
}

}  // namespace
}  // namespace penstock::ofi::test
