// penstock_messenger_*, penstock_message_*, penstock_request_*.
#include "penstock/messages.h"

#include <cstring>
#include <utility>

#include "base/format.hpp"
#include "capi/attachment.hpp"
#include "capi/options.hpp"
#include "capi/outcome.hpp"
#include "messages/messenger.hpp"

struct penstock_messenger {
  std::shared_ptr<penstock::capi::Attachment> attachment;
  std::unique_ptr<penstock::messages::Messenger> core;
};

struct penstock_request {
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
  auto messenger = std::make_unique<penstock_messenger>();
  messenger->attachment = std::move(attachment);
  messenger->core = PENSTOCK_TRY(messages::Messenger::open(
      *messenger->attachment->arena, {.self = options.rank, .ranks = options.ranks, .noun = noun}));
  return messenger;
}

/// `begin`(messenger, request's state).
template <class Begin>
penstock_status_t begin(penstock_messenger_t* messenger, penstock_request_t** request,
                        const Begin& start) {
  return guarded([&] {
    if (messenger == nullptr || request == nullptr)
      return report(ErrorCode::invalid_argument,
                    "the messenger or the place for the request is NULL");
    *request = nullptr;
    auto made = std::make_unique<penstock_request>();
    start(*messenger->core, made->state);
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
  return capi::guarded([&] {
    if (messenger == nullptr)
      return capi::report(ErrorCode::invalid_argument, "no place for the handle");
    *messenger = nullptr;
    if (pool == nullptr || options == nullptr)
      return capi::report(ErrorCode::invalid_argument, "the pool or the options are NULL");
    const auto given = capi::read_options(options);
    if (!given) return capi::report(given.error());
    auto opened = capi::open_messenger(pool->attachment, *given);
    if (!opened) return capi::report(opened.error());
    *messenger = opened->release();
    return PENSTOCK_OK;
  });
}

void penstock_messenger_close(penstock_messenger_t* messenger) {
  capi::guarded([&] {
    delete messenger;
    return PENSTOCK_OK;
  });
}

void penstock_messenger_address(const penstock_messenger_t* messenger,
                                penstock_address_t* address) {
  if (messenger == nullptr || address == nullptr) return;
  const transport::Address own = messenger->core->address();
  std::memcpy(address, &own, sizeof own);
}

penstock_status_t penstock_messenger_meet(penstock_messenger_t* messenger, uint32_t rank,
                                          const penstock_address_t* address) {
  return capi::guarded([&] {
    if (messenger == nullptr || address == nullptr)
      return capi::report(ErrorCode::invalid_argument, "the messenger or the address is NULL");
    transport::Address theirs{};
    std::memcpy(&theirs, address, sizeof theirs);
    return capi::report(messenger->core->meet(rank, theirs));
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
  capi::guarded([&] {
    if (messenger != nullptr) moved = messenger->core->progress();
    return PENSTOCK_OK;
  });
  return moved ? 1 : 0;
}

penstock_status_t penstock_request_test(const penstock_request_t* request,
                                        penstock_request_info_t* info) {
  return capi::guarded([&] {
    if (request == nullptr) return capi::report(ErrorCode::invalid_argument, "the request is NULL");
    const messages::Request& state = request->state;
    if (info != nullptr) *info = {state.done ? 1 : 0, state.source, state.bytes};
    return state.done ? capi::report(state.result) : PENSTOCK_OK;
  });
}

void penstock_request_free(penstock_request_t* request) {
  delete request;
}

}  // extern "C"
