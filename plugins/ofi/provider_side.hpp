// One side of a connection through libfabric, set up as a small application does it. For tests.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>

namespace penstock::ofi::test {

inline constexpr std::uint64_t deadline_s = 30;

/// A failed check in a process that cannot use gtest's assertions.
struct Failed {
  std::string what;
};
inline void check(bool good, const char* expression, int line) {
  if (!good) throw Failed{"line " + std::to_string(line) + ": " + expression};
}
#define CHECK(expression) ::penstock::ofi::test::check((expression), #expression, __LINE__)

/// One side of a pair: fabric, domain, queues, endpoint.
struct Side {
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_av* av = nullptr;
  fid_cq* cq = nullptr;
  fid_cntr* tx_cntr = nullptr;
  fid_cntr* rx_cntr = nullptr;
  fid_ep* ep = nullptr;
  fi_addr_t peer = FI_ADDR_UNSPEC, self = FI_ADDR_UNSPEC;
  int link = -1;  ///< a socket to the other process, for addresses and synchronization
  int index = 0;
  int mr_mode = 0;
  std::uint64_t tx_op_flags = 0;
  fi_threading threading = FI_THREAD_DOMAIN;

  void open(int link_in, int index_in, std::uint64_t cq_flags = 0) {
    link = link_in;
    index = index_in;
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_TAGGED | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA |
                  FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER;
    hints->domain_attr->mr_mode = mr_mode;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = threading;
    hints->fabric_attr->prov_name = ::strdup("penstock");
    hints->tx_attr->op_flags = FI_COMPLETION | tx_op_flags;
    hints->rx_attr->op_flags = FI_COMPLETION;
    const int found = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info);
    fi_freeinfo(hints);
    CHECK(found == 0);
    CHECK(std::string(info->fabric_attr->prov_name) == "penstock");
    CHECK(fi_fabric(info->fabric_attr, &fabric, nullptr) == 0);
    CHECK(fi_domain(fabric, info, &domain, nullptr) == 0);
    fi_av_attr av_attr{};
    av_attr.type = FI_AV_TABLE;
    CHECK(fi_av_open(domain, &av_attr, &av, nullptr) == 0);
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    CHECK(fi_cq_open(domain, &cq_attr, &cq, nullptr) == 0);
    fi_cntr_attr cntr_attr{};
    CHECK(fi_cntr_open(domain, &cntr_attr, &tx_cntr, nullptr) == 0);
    CHECK(fi_cntr_open(domain, &cntr_attr, &rx_cntr, nullptr) == 0);
    CHECK(fi_endpoint(domain, info, &ep, nullptr) == 0);
    CHECK(fi_ep_bind(ep, &av->fid, 0) == 0);
    CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | cq_flags) == 0);
    CHECK(fi_ep_bind(ep, &tx_cntr->fid, FI_SEND | FI_READ | FI_WRITE) == 0);
    CHECK(fi_ep_bind(ep, &rx_cntr->fid, FI_RECV) == 0);
    CHECK(fi_enable(ep) == 0);
    exchange_addresses();
  }

  void exchange_addresses() {
    char own[64], other[64];
    std::size_t length = sizeof(own);
    CHECK(fi_getname(&ep->fid, own, &length) == 0);
    CHECK(length == 24);
    CHECK(::write(link, own, length) == static_cast<ssize_t>(length));
    CHECK(::read(link, other, length) == static_cast<ssize_t>(length));
    CHECK(fi_av_insert(av, own, 1, &self, 0, nullptr) == 1);
    CHECK(fi_av_insert(av, other, 1, &peer, 0, nullptr) == 1);
    char back[24];
    std::size_t room = sizeof(back);
    CHECK(fi_av_lookup(av, peer, back, &room) == 0);
    CHECK(std::memcmp(back, other, 24) == 0);
  }

  void close() {
    for (fid* object :
         {&ep->fid, &cq->fid, &tx_cntr->fid, &rx_cntr->fid, &av->fid, &domain->fid, &fabric->fid}) {
      CHECK(fi_close(object) == 0);
    }
    fi_freeinfo(info);
  }

  /// A barrier of both processes; makes progress meanwhile.
  void meet() {
    char token = 'm';
    CHECK(::write(link, &token, 1) == 1);
    const auto start = std::chrono::steady_clock::now();
    while (::recv(link, &token, 1, MSG_DONTWAIT) != 1) {
      progress();
      CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(deadline_s));
    }
  }
  void progress() { (void)fi_cntr_read(tx_cntr); }

  fi_cq_tagged_entry wait(fi_addr_t* from = nullptr) {
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_UNSPEC;
    const ssize_t got = fi_cq_sreadfrom(cq, &entry, 1, &source, nullptr, deadline_s * 1000);
    CHECK(got == 1);
    if (from != nullptr) *from = source;
    return entry;
  }
  fi_cq_err_entry wait_error() {
    fi_cq_tagged_entry entry{};
    CHECK(fi_cq_sread(cq, &entry, 1, nullptr, deadline_s * 1000) == -FI_EAVAIL);
    fi_cq_err_entry error{};
    CHECK(fi_cq_readerr(cq, &error, 0) == 1);
    return error;
  }
  bool nothing() {
    fi_cq_tagged_entry entry{};
    for (int i = 0; i < 100; ++i) {
      if (fi_cq_read(cq, &entry, 1) != -FI_EAGAIN) return false;
    }
    return true;
  }
  /// Repeats the call while the provider returns -FI_EAGAIN.
  template <class Call>
  void post(Call call) {
    ssize_t done;
    while ((done = call()) == -FI_EAGAIN) progress();
    CHECK(done == 0);
  }
  void tsend(const void* data, std::size_t bytes, std::uint64_t tag, void* context = nullptr) {
    post([&] { return fi_tsend(ep, data, bytes, nullptr, peer, tag, context); });
  }
  void tinject(const std::string& text, std::uint64_t tag) {
    post([&] { return fi_tinject(ep, text.data(), text.size(), peer, tag); });
  }
  void trecv(void* buffer, std::size_t bytes, std::uint64_t tag, std::uint64_t ignore = 0,
             fi_addr_t from = FI_ADDR_UNSPEC, void* context = nullptr) {
    post([&] { return fi_trecv(ep, buffer, bytes, nullptr, from, tag, ignore, context); });
  }
};

inline std::string pattern(std::size_t bytes, unsigned seed) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>((i * 131 + seed * 17 + i / 251) & 0xff);
  }
  return text;
}

/// Another endpoint on a side's domain, with a queue of its own, that sends to itself.
struct Loop {
  fid_av* av = nullptr;
  fid_cq* cq = nullptr;
  fid_ep* ep = nullptr;
  fi_addr_t self = FI_ADDR_UNSPEC;

  void open(fid_domain* domain, fi_info* info, fi_cq_format format = FI_CQ_FORMAT_TAGGED) {
    fi_av_attr av_attr{};
    CHECK(fi_av_open(domain, &av_attr, &av, nullptr) == 0);
    fi_cq_attr cq_attr{};
    cq_attr.format = format;
    CHECK(fi_cq_open(domain, &cq_attr, &cq, nullptr) == 0);
    CHECK(fi_endpoint(domain, info, &ep, nullptr) == 0);
    CHECK(fi_ep_bind(ep, &av->fid, 0) == 0);
    CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_enable(ep) == 0);
    const std::array<char, 24> own = name();
    CHECK(fi_av_insert(av, own.data(), 1, &self, 0, nullptr) == 1);
  }
  std::array<char, 24> name() const {
    std::array<char, 24> own{};
    std::size_t length = own.size();
    CHECK(fi_getname(&ep->fid, own.data(), &length) == 0);
    return own;
  }
  void close() {
    for (fid* object : {&ep->fid, &cq->fid, &av->fid}) CHECK(fi_close(object) == 0);
  }
  /// Sends a message to `to`, which may be `self`, and receives it at `receiver`.
  void talk(fi_addr_t to, const Loop& receiver) const {
    char text[8] = {};
    CHECK(fi_trecv(receiver.ep, text, sizeof(text), nullptr, FI_ADDR_UNSPEC, 5, 0, text) == 0);
    CHECK(fi_tinject(ep, "talk", 4, to, 5) == 0);
    fi_cq_tagged_entry entry{};
    CHECK(fi_cq_sread(receiver.cq, &entry, 1, nullptr, 30000) == 1);
    CHECK(entry.op_context == text && std::string(text) == "talk");
  }
};

}  // namespace penstock::ofi::test
