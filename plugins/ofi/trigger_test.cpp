// Triggered operations (fi_trigger(3)) through libfabric itself.
#include <gtest/gtest.h>
#include <rdma/fi_trigger.h>

#include "test_pair.hpp"

namespace penstock::ofi::test {
namespace {

class TriggerTest : public ModesTest {};

IN_EACH_MODE(TriggerTest);

struct Held {
  fi_triggered_context context{};
  iovec iov{};
  fi_msg_tagged msg{};

  Held(fid_cntr* counter, std::size_t threshold, void* buffer, std::size_t bytes, fi_addr_t peer,
       std::uint64_t tag) {
    context.event_type = FI_TRIGGER_THRESHOLD;
    context.trigger.threshold = {counter, threshold};
    iov = {buffer, bytes};
    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = peer;
    msg.tag = tag;
    msg.context = &context;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
};

struct Counter {
  fid_cntr* cntr = nullptr;
  explicit Counter(Side& side) {
    fi_cntr_attr attr{};
    CHECK(fi_cntr_open(side.domain, &attr, &cntr, nullptr) == 0);
  }
  void close() const { CHECK(fi_close(&cntr->fid) == 0); }
};

constexpr std::uint64_t triggered = FI_TRIGGER | FI_COMPLETION;

TEST_P(TriggerTest, SendsWaitForTheirThresholdsInOrder) {
  play(
      [](Side& side) {
        const Counter counter(side);
        char a[] = "a", b[] = "b", c[] = "c", d[] = "d";
        Held second(counter.cntr, 2, b, 1, side.peer, 1),
            first(counter.cntr, 1, a, 1, side.peer, 1), third(counter.cntr, 2, c, 1, side.peer, 1),
            at_once(counter.cntr, 0, d, 1, side.peer, 1);
        for (Held* held : {&second, &first, &third}) {
          CHECK(fi_tsendmsg(side.ep, &held->msg, triggered) == 0);
          held->iov = {};  // the description was copied
        }
        CHECK(side.nothing());
        CHECK(fi_close(&counter.cntr->fid) == -FI_EBUSY);
        CHECK(fi_tsendmsg(side.ep, &at_once.msg, triggered) == 0);
        CHECK(side.wait().op_context == &at_once.context);
        CHECK(fi_cntr_add(counter.cntr, 1) == 0);
        CHECK(side.wait().op_context == &first.context);
        CHECK(side.nothing());
        CHECK(fi_cntr_set(counter.cntr, 7) == 0);
        CHECK(side.wait().op_context == &second.context);
        CHECK(side.wait().op_context == &third.context);
        counter.close();
        side.meet();
      },
      [](Side& side) {
        for (const char wanted : {'d', 'a', 'b', 'c'}) {
          char got = 0;
          side.trecv(&got, 1, 1);
          side.wait();
          CHECK(got == wanted);
        }
        side.meet();
      });
}

TEST_P(TriggerTest, ReceiveStartsSendAndPollingMovesIt) {
  // each side forwards a message as soon as it arrives, with no other call than a read
  play(
      [](Side& side) {
        char ping[] = "ping", pong[8] = {};
        side.trecv(pong, sizeof(pong), 2);
        side.tsend(ping, 4, 1);
        side.wait();
        side.wait();
        CHECK(std::string(pong) == "ping");
        side.meet();
      },
      [](Side& side) {
        char text[8] = {};
        side.trecv(text, sizeof(text), 1);
        Held answer(side.rx_cntr, fi_cntr_read(side.rx_cntr) + 1, text, 4, side.peer, 2);
        CHECK(fi_tsendmsg(side.ep, &answer.msg, triggered) == 0);
        CHECK((side.wait().flags & FI_RECV) != 0);
        CHECK(side.wait().op_context == &answer.context);
        side.meet();
      });
}

TEST_P(TriggerTest, ReceivesAndUntaggedAreHeldToo) {
  play(
      [](Side& side) {
        side.post([&] { return fi_inject(side.ep, "untagged", 8, side.peer); });
        side.tinject("tagged", 3);
        side.meet();
        side.meet();
      },
      [](Side& side) {
        const Counter counter(side);
        char tagged[8] = {}, untagged[9] = {};
        Held held(counter.cntr, 5, tagged, sizeof(tagged), FI_ADDR_UNSPEC, 3);
        CHECK(fi_trecvmsg(side.ep, &held.msg, triggered) == 0);
        fi_triggered_context context = held.context;
        iovec iov{untagged, 8};
        fi_msg msg{};
        msg.msg_iov = &iov;
        msg.iov_count = 1;
        msg.addr = FI_ADDR_UNSPEC;
        msg.context = &context;
        CHECK(fi_recvmsg(side.ep, &msg, triggered) == 0);
        side.meet();
        CHECK(side.nothing());
        CHECK(fi_cntr_set(counter.cntr, 5) == 0);
        for (int i = 0; i < 2; ++i) {
          const fi_cq_tagged_entry entry = side.wait();
          CHECK(entry.op_context == &context || entry.op_context == &held.context);
        }
        CHECK(std::string(tagged) == "tagged" && std::string(untagged) == "untagged");
        counter.close();
        side.meet();
      });
}

TEST_P(TriggerTest, CancelCloseAndBadRequests) {
  const Play both = [](Side& side) {
    const Counter counter(side);
    char text[8] = {};
    Held canceled(counter.cntr, 1, text, 1, side.peer, 1);
    CHECK(fi_tsendmsg(side.ep, &canceled.msg, triggered) == 0);
    CHECK(fi_cancel(&side.ep->fid, &canceled.context) == 0);
    const fi_cq_err_entry error = side.wait_error();
    CHECK(error.err == FI_ECANCELED && error.op_context == &canceled.context);
    CHECK((error.flags & (FI_SEND | FI_TAGGED)) == (FI_SEND | FI_TAGGED));
    CHECK(fi_cntr_add(counter.cntr, 1) == 0);
    CHECK(side.nothing());

    Held wrong(counter.cntr, 9, text, 1, side.peer, 1);
    CHECK(fi_tsendmsg(side.ep, &wrong.msg, triggered | FI_INJECT) == -FI_EINVAL);
    wrong.context.event_type = static_cast<fi_trigger_event>(99);
    CHECK(fi_tsendmsg(side.ep, &wrong.msg, triggered) == -FI_EINVAL);
    wrong.msg.context = nullptr;
    CHECK(fi_tsendmsg(side.ep, &wrong.msg, triggered) == -FI_EINVAL);

    // An invalid transfer fails when it starts.
    Held nobody(counter.cntr, 2, text, 1, 4711, 1);
    CHECK(fi_tsendmsg(side.ep, &nobody.msg, triggered) == 0);
    CHECK(fi_cntr_add(counter.cntr, 1) == 0);
    CHECK(side.wait_error().err == FI_EINVAL);

    // Closing an endpoint drops its held operations.
    fid_ep* ep = nullptr;
    CHECK(fi_endpoint(side.domain, side.info, &ep, nullptr) == 0);
    CHECK(fi_ep_bind(ep, &side.av->fid, 0) == 0);
    CHECK(fi_ep_bind(ep, &side.cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_enable(ep) == 0);
    Held forgotten(counter.cntr, 100, text, 1, side.peer, 1);
    CHECK(fi_tsendmsg(ep, &forgotten.msg, triggered) == 0);
    CHECK(fi_close(&counter.cntr->fid) == -FI_EBUSY);
    CHECK(fi_close(&ep->fid) == 0);
    counter.close();
    side.meet();
  };
  play(both, both);
}

TEST_P(TriggerTest, EndpointWithoutTheCapabilityRefuses) {
  const Play both = [](Side& side) {
    side.info->caps &= ~static_cast<std::uint64_t>(FI_TRIGGER);
    fid_ep* ep = nullptr;
    CHECK(fi_endpoint(side.domain, side.info, &ep, nullptr) == 0);
    CHECK(fi_ep_bind(ep, &side.av->fid, 0) == 0);
    CHECK(fi_ep_bind(ep, &side.cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_enable(ep) == 0);
    char text[8] = {};
    Held held(side.tx_cntr, 1, text, 1, side.peer, 1);
    CHECK(fi_tsendmsg(ep, &held.msg, triggered) == -FI_EINVAL);
    CHECK(fi_close(&ep->fid) == 0);
    side.meet();
  };
  play(both, both);
}

}  // namespace
}  // namespace penstock::ofi::test
