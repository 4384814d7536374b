// The provider's capabilities and limits, and the check of hints against them (fi_getinfo(3)).
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock::ofi {

inline constexpr std::size_t max_inject_bytes = 16384;
inline constexpr std::size_t max_message_bytes = (std::size_t{1} << 40) - 1;  ///< the transport's
inline constexpr std::size_t context_depth = 1u << 16;  ///< operations in flight; nominal
inline constexpr std::size_t max_error_text = 256;
inline constexpr std::size_t cq_data_bytes = 8;

inline constexpr std::uint64_t tx_caps =
    FI_MSG | FI_TAGGED | FI_SEND | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_TRIGGER;
inline constexpr std::uint64_t rx_caps =
    FI_MSG | FI_TAGGED | FI_RECV | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA |
    FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT | FI_TRIGGER;
inline constexpr std::uint64_t domain_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
inline constexpr std::uint64_t all_caps = tx_caps | rx_caps | domain_caps;

inline constexpr std::uint64_t tx_op_flags =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
inline constexpr std::uint64_t rx_op_flags = FI_COMPLETION | FI_MULTI_RECV;

/// Sends to one peer arrive in order, and atomics are performed in order.
inline constexpr std::uint64_t message_order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR |
                                               FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |
                                               FI_ORDER_ATOMIC_WAW;

/// Replaces the old names that stand for several FI_MR_... bits by these bits.
int plain_mr_mode(int mode);

/// Values that depend on the pool.
struct Offer {
  std::string domain_name;  ///< the pool's SPEC
  std::uint64_t pool_id = 0;
};
/// The slot in source addresses that fi_getinfo returns: the pool chooses the slot at fi_enable.
inline constexpr std::uint32_t any_slot = ~std::uint32_t{0};

/// The reason why `hints` cannot be met; nullopt if they can.
std::optional<std::string> refusal(std::uint32_t version, const fi_info* hints, const Offer& offer);
/// Fills `info`, fresh from allocate_info(), for hints that are not refused. False if out of
/// memory.
bool fill_info(fi_info* info, std::uint32_t version, const fi_info* hints, const Offer& offer);

int getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
            const fi_info* hints, fi_info** result);

}  // namespace penstock::ofi
