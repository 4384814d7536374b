#include "info.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_endpoint.h>

#include <cstring>
#include <functional>

#include "domain.hpp"
#include "lib.hpp"
#include "transport/transport.hpp"

namespace penstock::ofi {
namespace {

constexpr std::uint32_t version = FI_VERSION(1, 17);

class InfoTest : public ::testing::Test {
 protected:
  InfoTest() : hints(fi_allocinfo()), info(fi_allocinfo()) {}
  ~InfoTest() override {
    fi_freeinfo(hints);
    fi_freeinfo(info);
  }
  bool refused(std::uint32_t api = version) { return refusal(api, hints, offer).has_value(); }
  /// Fills a fresh fi_info, as fill_info needs it.
  bool fill_again() {
    fi_freeinfo(info);
    info = fi_allocinfo();
    return fill_info(info, version, hints, offer);
  }

  Offer offer{"shm:test", 4711};
  fi_info* hints;
  fi_info* info;
};

TEST_F(InfoTest, WithoutHintsEverythingIsOffered) {
  ASSERT_FALSE(refusal(version, nullptr, offer));
  ASSERT_TRUE(fill_info(info, version, nullptr, offer));
  EXPECT_EQ(info->caps, all_caps);
  EXPECT_EQ(info->ep_attr->type, FI_EP_RDM);
  EXPECT_EQ(info->mode, 0u);
  EXPECT_EQ(info->fabric_attr->prov_name, nullptr);
  EXPECT_STREQ(info->fabric_attr->name, "penstock");
  EXPECT_STREQ(info->domain_attr->name, "shm:test");
  EXPECT_EQ(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
  EXPECT_GE(info->domain_attr->cq_data_size, 4u);
  EXPECT_EQ(info->tx_attr->inject_size, max_inject_bytes);
  EXPECT_EQ(info->domain_attr->mr_mode, 0);
}

TEST_F(InfoTest, ReturnsAnOpenDomainOnlyIfItFits) {
  constexpr bool shared = true;
  Domain open(shared, nullptr);
  open.mr_mode = 0;
  hints->domain_attr->domain = &open;
  ASSERT_TRUE(fill_again());
  EXPECT_EQ(info->domain_attr->domain, &open);
  hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED;
  ASSERT_TRUE(fill_again());
  EXPECT_EQ(info->domain_attr->domain, nullptr);
  open.mr_mode = plain_mr_mode(info->domain_attr->mr_mode);
  ASSERT_TRUE(fill_again());
  EXPECT_EQ(info->domain_attr->domain, &open);
  Domain of_one_thread(!shared, nullptr);
  of_one_thread.mr_mode = open.mr_mode;
  hints->domain_attr->domain = &of_one_thread;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  ASSERT_TRUE(fill_again());
  EXPECT_EQ(info->domain_attr->domain, nullptr);
  hints->domain_attr->domain = nullptr;
}

TEST_F(InfoTest, SourceAddressIsAnySlotOfThePool) {
  ASSERT_TRUE(fill_info(info, version, nullptr, offer));
  transport::Address source;
  ASSERT_EQ(info->src_addrlen, sizeof(source));
  std::memcpy(&source, info->src_addr, sizeof(source));
  EXPECT_EQ(source.pool_id, 4711u);
  EXPECT_EQ(source.slot, any_slot);
  // a returned address is valid as a hint; a real endpoint's address is not
  EXPECT_FALSE(refusal(version, info, offer));
  source.slot = 3;
  std::memcpy(info->src_addr, &source, sizeof(source));
  EXPECT_TRUE(refusal(version, info, offer));
}

TEST_F(InfoTest, OtherEndpointTypesAreRefused) {
  for (const fi_ep_type type : {FI_EP_MSG, FI_EP_DGRAM}) {
    hints->ep_attr->type = type;
    EXPECT_TRUE(refused());
  }
  hints->ep_attr->type = FI_EP_RDM;
  EXPECT_FALSE(refused());
}

TEST_F(InfoTest, CapabilitiesThatAreNotThereAreRefused) {
  for (const std::uint64_t caps : {FI_HMEM, FI_MULTICAST, FI_FENCE}) {
    hints->caps = FI_MSG | caps;
    EXPECT_TRUE(refused()) << std::hex << caps;
  }
}

TEST_F(InfoTest, CapabilitiesAskedForComeBack) {
  hints->caps = FI_TAGGED;
  ASSERT_FALSE(refused());
  ASSERT_TRUE(fill_info(info, version, hints, offer));
  EXPECT_EQ(info->caps & (FI_TAGGED | FI_SEND | FI_RECV), FI_TAGGED | FI_SEND | FI_RECV);
  EXPECT_EQ(info->caps & (FI_MSG | FI_DIRECTED_RECV), 0u);
  hints->caps = FI_MSG | FI_SEND;
  ASSERT_TRUE(fill_again());
  EXPECT_EQ(info->caps & FI_RECV, 0u);
}

TEST_F(InfoTest, EachLimitIsChecked) {
  const std::function<void(fi_info*)> asks[] = {
      [](fi_info* h) { h->tx_attr->inject_size = max_inject_bytes + 1; },
      [](fi_info* h) { h->tx_attr->iov_limit = 5; },
      [](fi_info* h) { h->rx_attr->iov_limit = 5; },
      [](fi_info* h) { h->tx_attr->comp_order = FI_ORDER_STRICT; },
      [](fi_info* h) { h->tx_attr->msg_order = FI_ORDER_RAW; },
      [](fi_info* h) { h->tx_attr->op_flags = FI_COMMIT_COMPLETE; },
      [](fi_info* h) { h->domain_attr->cq_data_size = 9; },
      [](fi_info* h) { h->domain_attr->data_progress = FI_PROGRESS_AUTO; },
      [](fi_info* h) { h->domain_attr->control_progress = FI_PROGRESS_AUTO; },
      [](fi_info* h) { h->ep_attr->max_msg_size = max_message_bytes + 1; },
      [](fi_info* h) { h->ep_attr->tx_ctx_cnt = 2; },
      [](fi_info* h) { h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; },
      [](fi_info* h) { h->ep_attr->protocol = FI_PROTO_SHM; },
      [](fi_info* h) { h->addr_format = FI_SOCKADDR_IN; },
      [](fi_info* h) { h->fabric_attr->name = ::strdup("elsewhere"); },
      [](fi_info* h) { h->domain_attr->name = ::strdup("shm:other"); },
  };
  for (std::size_t i = 0; i < std::size(asks); ++i) {
    fi_info* asked = fi_allocinfo();
    asks[i](asked);
    EXPECT_TRUE(refusal(version, asked, offer).has_value()) << "request " << i;
    fi_freeinfo(asked);
  }
}

TEST_F(InfoTest, WhatMpichAsksForIsMet) {
  hints->mode = FI_CONTEXT | FI_ASYNC_IOV | FI_RX_CQ_DATA | FI_CONTEXT2;
  hints->caps = all_caps;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->av_type = FI_AV_TABLE;
  hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  hints->domain_attr->cq_data_size = 4;
  hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
  hints->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |
                              FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->op_flags = FI_COMPLETION;
  hints->ep_attr->type = FI_EP_RDM;
  hints->ep_attr->mem_tag_format = 0x1234;
  const auto why = refusal(version, hints, offer);
  ASSERT_FALSE(why) << *why;
  ASSERT_TRUE(fill_info(info, version, hints, offer));
  EXPECT_EQ(info->domain_attr->threading, FI_THREAD_DOMAIN);
  EXPECT_EQ(info->domain_attr->av_type, FI_AV_TABLE);
  EXPECT_EQ(info->ep_attr->mem_tag_format, 0x1234u);
  EXPECT_EQ(info->tx_attr->op_flags, FI_COMPLETION | FI_DELIVERY_COMPLETE);
  EXPECT_EQ(info->rx_attr->msg_order, static_cast<std::uint64_t>(FI_ORDER_SAS));
}

TEST_F(InfoTest, OldVersionsGetOldRegistrationModes) {
  ASSERT_TRUE(fill_info(info, FI_VERSION(1, 4), hints, offer));
  EXPECT_EQ(info->domain_attr->mr_mode, FI_MR_SCALABLE);
  hints->domain_attr->mr_mode = FI_MR_BASIC;
  ASSERT_TRUE(fill_again());
  EXPECT_EQ(info->domain_attr->mr_mode, FI_MR_BASIC);
}

TEST_F(InfoTest, LibraryCallsBindToTheLoadedLibrary) {
  fi_info* made = allocate_info();
  ASSERT_NE(made, nullptr);
  EXPECT_NE(made->tx_attr, nullptr);
  EXPECT_NE(made->domain_attr, nullptr);
  free_info(made);
}

}  // namespace
}  // namespace penstock::ofi
