#include "transport/send_list.hpp"

#include <utility>

namespace penstock::transport {

void SendList::push(SendOp* op) {
  op->next = nullptr;
  if (last_)
    last_->next = op;
  else
    first_ = op;
  last_ = op;
}

void SendList::push_urgent(SendOp* op) {
  SendOp** at = &first_;
  while (*at && ((*at)->position != 0 || (*at)->urgent)) at = &(*at)->next;
  if (!*at) return push(op);
  op->next = *at;
  *at = op;
}

SendOp* SendList::pop() {
  SendOp* op = first_;
  first_ = op->next;
  if (!first_) last_ = nullptr;
  return op;
}

bool SendList::cancel(SendOp* op) {
  SendOp* before = nullptr;
  for (SendOp* at = first_; at; before = at, at = at->next) {
    if (at != op) continue;
    if (op->position != 0) return false;  // begun
    (before ? before->next : first_) = op->next;
    if (last_ == op) last_ = before;
    return true;
  }
  return false;
}

SendOp* SendList::take_back(bool (*wanted)(const SendOp&)) {
  SendList all, taken;
  std::swap(all, *this);
  while (!all.empty()) {
    SendOp* const op = all.pop();
    (op->position == 0 && wanted(*op) ? taken : *this).push(op);
  }
  return taken.first_;
}

}  // namespace penstock::transport
