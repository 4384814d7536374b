#include "ncclnet/connection.hpp"

#include <cstring>

#include "penstock/penstock.h"

namespace penstock::ncclnet {

namespace {

constexpr std::uint64_t greeting_tag = 0;

Logger log_by = nullptr;

/// Maps any int of NCCL to a message tag above the one that greetings use.
std::uint64_t tag_of(int tag) {
  return 1 + static_cast<std::uint64_t>(static_cast<std::uint32_t>(tag));
}

penstock_pool_info_t info() {
  penstock_pool_info_t found{};
  (void)penstock_pool_info(penstock_default_pool(), &found);
  return found;
}

}  // namespace

void set_logger(Logger logger) {
  log_by = logger;
}

Result failed(Result result, const std::string& words) {
  if (log_by != nullptr)
    log_by(log_warn, log_net, __FILE__, __LINE__, "NET/penstock : %s", words.c_str());
  return result;
}

Result outcome(penstock_status_t status, const char* what) {
  if (status == PENSTOCK_OK) return success;
  const Result result = status == PENSTOCK_PEER_DEAD ? remote_error : system_error;
  return failed(result, std::string(what) + ": " + penstock_last_error());
}

bool has_pool() {
  return penstock_default_pool() != nullptr || penstock_default_attach() == PENSTOCK_OK;
}

Result Connection::open(std::uint32_t rank, std::unique_ptr<Connection>& connection) {
  if (!has_pool()) return failed(system_error, penstock_last_error());
  connection.reset(new Connection(rank));
  penstock_messenger_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = rank;
  options.ranks = 2;
  options.name = "NCCL connection";
  const auto opened =
      penstock_messenger_open(penstock_default_pool(), &options, &connection->messenger_);
  if (opened != PENSTOCK_OK) return outcome(opened, "a connection");
  if (rank != 0) return success;
  return outcome(
      penstock_message_receive(connection->messenger_, 1, greeting_tag, &connection->greeting_,
                               sizeof connection->greeting_, &connection->greeting_request_),
      "listening");
}

Connection::~Connection() {
  penstock_messenger_close(messenger_);
  penstock_request_free(greeting_request_);
}

Address Connection::address() const {
  const penstock_pool_info_t of_pool = info();
  Address own{.magic = Address::our_magic, .pool = of_pool.id, .token = of_pool.token};
  penstock_messenger_address(messenger_, &own.messenger);
  return own;
}

Result Connection::greet(const Address& other_end) {
  if (other_end.magic != Address::our_magic)
    return failed(invalid_usage, "the other end is no connection of Penstock's");
  if (other_end.pool != info().id)
    return failed(invalid_usage,
                  "the other end uses another pool: PENSTOCK_POOL must name the same on all hosts");
  peer_ = other_end.token;
  greeting_ = address();
  const auto met = penstock_messenger_meet(messenger_, other(), &other_end.messenger);
  if (met != PENSTOCK_OK) return outcome(met, "connecting");
  return outcome(penstock_message_send(messenger_, other(), greeting_tag, &greeting_,
                                       sizeof greeting_, &greeting_request_),
                 "connecting");
}

Result Connection::has_met(bool& met) {
  (void)penstock_messenger_progress(messenger_);
  penstock_request_info_t found{};
  const auto status = penstock_request_test(greeting_request_, &found);
  met = found.done != 0;
  if (status != PENSTOCK_OK) return outcome(status, "connecting");
  if (!met || peer_ != 0) return success;
  peer_ = greeting_.token;
  return outcome(penstock_messenger_meet(messenger_, other(), &greeting_.messenger), "accepting");
}

Result Connection::begun(penstock_status_t status, penstock_request_t* made, void** request) {
  *request = nullptr;
  if (status != PENSTOCK_OK) return outcome(status, "a message");
  *request = new Request{this, made};
  return success;
}

Result Connection::send(void* data, std::size_t bytes, int tag, void** request) {
  penstock_request_t* made = nullptr;
  const auto status = penstock_message_send(messenger_, other(), tag_of(tag), data, bytes, &made);
  return begun(status, made, request);
}

Result Connection::receive(void* data, std::size_t bytes, int tag, void** request) {
  penstock_request_t* made = nullptr;
  const auto status =
      penstock_message_receive(messenger_, other(), tag_of(tag), data, bytes, &made);
  return begun(status, made, request);
}

Result Connection::test(Request* request, int* done, int* bytes) {
  (void)penstock_messenger_progress(request->connection->messenger_);
  penstock_request_info_t found{};
  const auto status = penstock_request_test(request->request, &found);
  *done = found.done != 0 ? 1 : 0;
  if (status != PENSTOCK_OK) return outcome(status, "a message");
  if (*done == 0) return success;
  if (bytes != nullptr) *bytes = static_cast<int>(found.bytes);
  penstock_request_free(request->request);
  delete request;
  return success;
}

}  // namespace penstock::ncclnet
