// penstock_messenger_*, penstock_message_*, penstock_request_*.
#include "penstock/messages.h"

#include <cstring>
#include <utility>

#include "base/format.hpp"
#include "capi/attachment.hpp"
#include "capi/options.hpp"
#include "capi/outcome.hpp"
#include "messages/messenger.hpp"

struct penstock_messenger final : penstock::capi::Handle {
  static constexpr const char* noun = "messenger";
  explicit penstock_messenger(std::shared_ptr<penstock::capi::Attachment> to)
      : attachment(std::move(to)) {}
  void end() noexcept override { core.reset(); }

  const std::shared_ptr<penstock::capi::Attachment> attachment;
  std::unique_ptr<penstock::messages::Messenger> core;
};

struct penstock_request final : penstock::capi::Handle {
  static constexpr const char* noun = "request";
  void end() noexcept override {}

  penstock::messages::Request state;
};

namespace penstock::capi {

namespace {

static_assert(sizeof(penstock_address_t) == sizeof(transport::Address));

Result<std::unique_ptr<penstock_messenger>> open_messenger(
    std::shared_ptr<Attachment> attachment, const penstock_messenger_options_t& options) {
  const char* const noun = options.name != nullptr ? options.name : "group";
  if (options.rank >= options.ranks)
    return fail(ErrorCode::invalid_argument, "{}: rank {} of {} ranks", noun, options.rank,
                options.ranks);
  auto messenger = std::make_unique<penstock_messenger>(std::move(attachment));
  messages::Messenger::Options core{.self = options.rank, .ranks = options.ranks, .noun = noun};
  if (options.longest_unasked != 0) core.longest_unasked = options.longest_unasked;
  messenger->core =
      PENSTOCK_TRY(messages::Messenger::open(*messenger->attachment->arena, std::move(core)));
  return messenger;
}

/// Starts a request: calls `begin`(messenger, request's state).
template <class Begin>
penstock_status_t begin(penstock_messenger_t* messenger, penstock_request_t** request,
                        const Begin& start) {
  if (request != nullptr) *request = nullptr;
  return use(messenger, [&](penstock_messenger& handle) {
    if (request == nullptr)
      return report(ErrorCode::invalid_argument, "the place for the request is NULL");
    auto made = std::make_unique<penstock_request>();
    start(*handle.core, made->state);
    *request = made.release();
    return PENSTOCK_OK;
  });
}

}  // namespace

}  // namespace penstock::capi

using namespace penstock;

extern "C" {

penstock_status_t penstock_messenger_open(penstock_pool_t* pool,
                                          const penstock_messenger_options_t* options,
                                          penstock_messenger_t** messenger) {
  if (messenger != nullptr) *messenger = nullptr;
  return capi::use(pool, [&](const penstock_pool& handle) -> Result<void> {
    if (messenger == nullptr || options == nullptr)
      return fail(ErrorCode::invalid_argument, "the options or the handle's place is NULL");
    const auto given = PENSTOCK_TRY(capi::read_options(options));
    *messenger = PENSTOCK_TRY(capi::open_messenger(handle.attachment, given)).release();
    return {};
  });
}

void penstock_messenger_close(penstock_messenger_t* messenger) {
  capi::Handle::close(messenger);
}

void penstock_messenger_address(const penstock_messenger_t* messenger,
                                penstock_address_t* address) {
  capi::use(messenger, [&](const penstock_messenger& handle) {
    const transport::Address own = handle.core->address();
    if (address != nullptr) std::memcpy(address, &own, sizeof own);
    return PENSTOCK_OK;
  });
}

penstock_status_t penstock_messenger_meet(penstock_messenger_t* messenger, uint32_t rank,
                                          const penstock_address_t* address) {
  return capi::use(messenger, [&](penstock_messenger& handle) -> Result<void> {
    if (address == nullptr) return fail(ErrorCode::invalid_argument, "the address is NULL");
    transport::Address theirs{};
    std::memcpy(&theirs, address, sizeof theirs);
    return handle.core->meet(rank, theirs);
  });
}

penstock_status_t penstock_messenger_expect(penstock_messenger_t* messenger, uint32_t rank,
                                            uint64_t token) {
  return capi::use(messenger, [&](penstock_messenger& handle) -> Result<void> {
    return handle.core->expect(rank, token);
  });
}

penstock_status_t penstock_message_send(penstock_messenger_t* messenger, uint32_t to, uint64_t tag,
                                        const void* data, uint64_t bytes,
                                        penstock_request_t** request) {
  return capi::begin(messenger, request,
                     [&](auto& core, auto& state) { core.send(to, tag, data, bytes, state); });
}

penstock_status_t penstock_message_receive(penstock_messenger_t* messenger, uint32_t from,
                                           uint64_t tag, void* data, uint64_t bytes,
                                           penstock_request_t** request) {
  return capi::begin(messenger, request,
                     [&](auto& core, auto& state) { core.receive(from, tag, data, bytes, state); });
}

int penstock_messenger_progress(penstock_messenger_t* messenger) {
  bool moved = false;
  capi::use(messenger, [&](penstock_messenger& handle) {
    moved = handle.core->progress();
    return PENSTOCK_OK;
  });
  return moved ? 1 : 0;
}

penstock_status_t penstock_request_test(const penstock_request_t* request,
                                        penstock_request_info_t* info) {
  return capi::use(request, [&](const penstock_request& handle) {
    const messages::Request& state = handle.state;
    if (info != nullptr) *info = {state.done ? 1 : 0, state.source, state.bytes};
    return state.done ? capi::report(state.result) : PENSTOCK_OK;
  });
}

void penstock_request_free(penstock_request_t* request) {
  capi::Handle::close(request);
}

}  // extern "C"
