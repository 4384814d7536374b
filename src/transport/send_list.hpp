// Operations in order, linked by SendOp::next. The list owns nothing.
#pragma once

#include "transport/transport.hpp"

namespace penstock::transport {

class SendList {
 public:
  SendOp* first() const { return first_; }
  bool empty() const { return first_ == nullptr; }
  /// True if the first operation has begun: a part of it is in the pool.
  bool has_begun() const { return first_ != nullptr && first_->position != 0; }

  void push(SendOp* op);
  /// Inserts after messages that have begun and other urgent ones.
  void push_urgent(SendOp* op);
  SendOp* pop();
  /// True if the operation was in the list and had not begun.
  bool cancel(SendOp* op);
  /// Takes all that have not begun and that `wanted` accepts, in order. Null: none.
  SendOp* take_back(bool (*wanted)(const SendOp&));

 private:
  SendOp* first_ = nullptr;
  SendOp* last_ = nullptr;
};

}  // namespace penstock::transport
